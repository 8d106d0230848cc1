//! Text forms of values.
