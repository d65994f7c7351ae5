"""What links, handovers and recoveries store: their SQL, and the rows that it reads and writes."""
