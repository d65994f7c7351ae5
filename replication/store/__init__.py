"""The stored state of links, handovers and recoveries, with the SQL that reads and writes it."""
