//! Sections of a snapshot dump.

use clap::ValueEnum;

/// A section of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Section {
    Templates,
    Adapters,
    Handlers,
    Instances,
    Rules,
    Attributes,
    Errors,
}

impl Section {
    pub(super) const ALL: [Section; 7] = [
        Section::Rules,
        Section::Handlers,
        Section::Instances,
        Section::Templates,
        Section::Adapters,
        Section::Attributes,
        Section::Errors,
    ];

    /// The key of the section in the document.
    pub(super) fn member(self) -> &'static str {
        match self {
            Section::Templates => "templates",
            Section::Adapters => "adapters",
            Section::Handlers => "handlers",
            Section::Instances => "instances",
            Section::Rules => "rules",
            Section::Attributes => "attributes",
            Section::Errors => "errors",
        }
    }
}
