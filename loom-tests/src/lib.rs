//! loom models over corewheel's own source files.
