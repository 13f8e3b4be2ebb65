//! Lock strategies for the registry: how the state is shared between the writer and the readers.
