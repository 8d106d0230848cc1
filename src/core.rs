//! The engine. Doors between the rooms open one way:
//! `attribute <- expr <- template <- config <- {adapter, handler} <- routing <- dispatch <- runtime <- api <- server`.

pub mod adapter;
pub mod attribute;
pub mod config;
pub mod expr;
pub mod store;
pub mod template;
