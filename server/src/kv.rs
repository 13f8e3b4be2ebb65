//! The KV configuration: namespaces of keys and values, kept on disk.
