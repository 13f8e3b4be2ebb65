//! Every limit of the server, with its unit and its reason.
