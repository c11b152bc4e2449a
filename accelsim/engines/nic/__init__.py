"""Network interfaces: messages to and from other devices, and barriers."""
