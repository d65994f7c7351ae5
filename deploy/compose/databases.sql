-- One database for each node. The server runs it once, when it is fresh.
CREATE DATABASE hub;
CREATE DATABASE east;
CREATE DATABASE west;
