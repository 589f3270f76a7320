"""Drills with real processes: things die, hang, fill up, and afterwards the books must balance."""
