//! Limits, and the overrides that select them.

use super::{Override, Quota};
use crate::dimensions::Dimensions;
use crate::quotas::{Limit, key};
use mixer_engine::adapter::{BoundInstance, Instance, QuotaOverride};

/// The limits of one instance.
#[derive(Debug)]
pub(super) struct Limits {
    overrides: Vec<(Dimensions, Limit)>,
    default: Limit,
    /// The dimensions, in the order of the values of an instance.
    names: Vec<String>,
}

impl Limits {
    /// Resolves the limits of `quota` against the dimensions of `instance`.
    pub(super) fn new(quota: &Quota, instance: &BoundInstance) -> Self {
        let prepare = |over: &Override| {
            let limit = Limit { max_amount: over.max_amount, valid_duration: over.valid_duration };
            (Dimensions::new(&over.dimensions, instance), limit)
        };
        Self {
            overrides: quota.overrides.iter().map(prepare).collect(),
            default: Limit { max_amount: quota.max_amount, valid_duration: quota.valid_duration },
            names: key::names_of(instance),
        }
    }

    /// The limit of keys without an override.
    pub(super) fn default_limit(&self) -> Limit {
        self.default
    }

    /// The dimensions, in the order of the values of an instance.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The overrides, in the order in which they apply.
    pub(super) fn overrides(&self) -> impl ExactSizeIterator<Item = QuotaOverride> {
        self.overrides.iter().map(|(dimensions, limit)| QuotaOverride {
            dimensions: dimensions.describe(&self.names),
            limit: limit.max_amount,
        })
    }

    /// The first override whose conditions all match, or else the limit of the quota.
    pub(super) fn select(&self, instance: &Instance<'_>) -> Limit {
        self.overrides
            .iter()
            .find(|(dimensions, _)| dimensions.match_all(instance))
            .map_or(self.default, |(_, limit)| *limit)
    }
}
