//! This server as a sink.
