"""Whether a server does what the specification says: cases as data, and their runner."""
