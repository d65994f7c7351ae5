"""The commands of `concord` about links, handovers, recoveries and signatures."""
