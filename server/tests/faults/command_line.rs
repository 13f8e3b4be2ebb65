//! command_line
