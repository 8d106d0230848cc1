//! The snapshot: all configuration of one moment, resolved, typed and compiled. Immutable once built.
//!
//! A build is a pure function of resources and the previous build; resources that cannot be built are left out and diagnosed. The
//! server, `validate`, `snapshot dump`, `routes show` and admission share it. This module builds no handlers and reads no file,
//! clock or network.
//! Resources mean what they mean to Istio Mixer 1.3; docs/compatibility.md lists the differences.

mod alone;
mod annotations;
mod bindings;
mod build;
mod callers;
mod comparisons;
pub mod decode;
mod dump;
mod extension;
mod external;
mod failure_mode;
mod forgotten;
mod handlers;
mod header_operations;
mod instances;
mod interrupt;
mod kind;
mod known;
mod lint;
mod model;
mod names;
mod namespaces;
mod openings;
mod options;
mod params;
mod pattern_shares;
mod problems;
mod programs;
mod quotas;
mod rules;
mod spills;
mod standard;
mod structure;
mod suspicions;
mod text_budget;
mod trials;
mod unenforced;
mod unit;
mod units;
mod unnamed;
mod vocabulary;

pub use alone::{RefusedExpression, examine_expression};
pub(crate) use annotations::is_dry_run;
pub use annotations::unsupported_annotations;
pub(crate) use build::BuildStage;
pub use build::SnapshotBuilder;
pub use comparisons::{ClauseTest, clause};
pub use dump::{
    ActionDump, AdapterDump, AdapterMetadataDump, AttributeDump, ErrorDump, HandlerDump, HeaderOperationDump,
    InstanceDump, ResourceDump, RuleDump, SnapshotDump, SourceDump, TemplateDump, TemplateMetadataDump, dump,
    resources_of,
};
pub use extension::{
    ChargedAttribute, ConstantDimension, DecodedResource, ExtensionConfig, IncompleteAttribute,
    MappingOutline, NamespaceReference, QuotaNamespaces, QuotaReference, Registry, RequestNamespace,
    SnapshotExtension,
};
pub use external::{AdapterConfig, AdapterResource, ExternalHandler, ExternalOutline, TemplateResource};
pub use failure_mode::{FailureAnswer, FailureMode};
pub use forgotten::in_spec as forgotten_in;
pub(crate) use kind::KIND_UNKNOWN;
pub use kind::KnownKind;
pub(crate) use lint::examine;
pub(crate) use lint::place::params_path;
pub use lint::{check_params, lint, pitfalls};
pub(crate) use model::Evasion;
pub use model::{
    ActionConfig, Allowance, Condition, HandlerConfig, HeaderOperationConfig, HeaderOperationKind,
    InstanceConfig, OnError, RuleConfig, Rules, Snapshot, SnapshotCounts, SnapshotId,
};
pub(crate) use model::{HandlerBinding, OutputSource};
pub(crate) use names::candidates;
pub(crate) use namespaces::UNUSED_DEFAULT as UNUSED_DEFAULT_NAMESPACE;
pub use options::{DEFAULT_NAMESPACE, SnapshotOptions};
pub(crate) use problems::{OF_DOCUMENTS, OF_REFERENCES};
pub use problems::{ResourceProblems, is_consequence};
pub(crate) use quotas::names_quota;
pub(crate) use spills::conflicts as spill_conflicts;
pub use spills::{is_spill_conflict, spill_directories};
pub use structure::structure;
pub(crate) use trials::{TRIAL_REJECTED, Trial, rejected_trials, trials_rejected_by_backend};
pub use unenforced::{Unenforced, UnenforcedScope};
pub(crate) use unit::KeptUnit;
