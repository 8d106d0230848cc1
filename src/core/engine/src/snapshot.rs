//! The snapshot: all configuration of one moment, resolved, typed and compiled. Immutable once built.
//!
//! Building is a pure function of resources and the previous build; whatever cannot be built is left out and diagnosed. The
//! server, `validate`, `snapshot dump`, `routes show` and admission share it. This room never builds handlers and never reads
//! a file, a clock or the network.
//! Spec: runtime.md section 4.

mod annotations;
mod bindings;
mod build;
pub mod decode;
mod dump;
mod dynamic;
mod extension;
mod handlers;
mod instances;
mod lint;
mod memo;
mod model;
mod names;
mod params;
mod report;
mod rules;
mod vocabulary;

pub use build::{SnapshotBuilder, SnapshotOptions};
pub use dump::{
    ActionDump, AdapterDump, AttributeDump, ErrorDump, HandlerDump, HeaderOperationDump, InstanceDump,
    RuleDump, SnapshotDump, SourceDump, TemplateDump, TemplateMetadataDump, dump,
};
pub use extension::{DecodedResource, Extension, ExtensionConfig, MappingOutline, Registry};
pub use lint::{check_params, lint, pitfalls};
pub use model::{
    ActionConfig, AttributeBinding, Condition, HandlerBinding, HandlerConfig, HeaderOperationConfig,
    HeaderOperationKind, InstanceConfig, OnError, RuleConfig, Rules, Snapshot, SnapshotCounts, SnapshotId,
};
pub use report::Report;
