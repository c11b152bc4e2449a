"""What a step of many devices looks like: page, trace, pictures."""
