//! Configuration: the keys of the original, the properties file, the command line.
