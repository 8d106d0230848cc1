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
    Resources,
    Errors,
}

impl Section {
    pub(super) const ALL: [Section; 8] = [
        Section::Rules,
        Section::Handlers,
        Section::Instances,
        Section::Templates,
        Section::Adapters,
        Section::Attributes,
        Section::Resources,
        Section::Errors,
    ];

    /// Its heading.
    pub(super) fn heading(self) -> &'static str {
        match self {
            Section::Templates => "TEMPLATES",
            Section::Adapters => "ADAPTERS",
            Section::Handlers => "HANDLERS",
            Section::Instances => "INSTANCES",
            Section::Rules => "RULES",
            Section::Attributes => "ATTRIBUTES",
            Section::Resources => "OTHER RESOURCES",
            Section::Errors => "ERRORS",
        }
    }

    /// The keys of the section in the document.
    pub(super) fn members(self) -> &'static [&'static str] {
        match self {
            Section::Templates => &["templates", "templateMetadatas"],
            Section::Adapters => &["adapters", "adapterMetadatas"],
            Section::Handlers => &["handlers"],
            Section::Instances => &["instances"],
            Section::Rules => &["rules"],
            Section::Attributes => &["attributes"],
            Section::Resources => &["resources"],
            Section::Errors => &["errors"],
        }
    }
}
