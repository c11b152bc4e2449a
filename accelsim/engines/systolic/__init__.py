"""Systolic arrays, exactly: fold timing, closed forms of every access, and the model they are proven on."""
