//! Quotas that a server grants as it grants what no rule allocates.

use std::collections::BTreeSet;

use super::response::referenced_titles;
use crate::cmd::attributes::Quotas;
use mixer_wire::istio::mixer::v1::CheckResponse;

/// For how long a server grants a quota that no rule allocates, in seconds.
const UNALLOCATED_SECONDS: i64 = 60;

/// One line for each quota that no rule of the server seems to allocate for the request: it was granted in full, for a minute, and no
/// attribute was read for it. The answer does not say more, and a quota without dimensions looks the same.
pub(super) fn unallocated(response: &CheckResponse, quotas: &Quotas) -> Vec<String> {
    let of_check = response.precondition.as_ref().and_then(|check| check.referenced_attributes.as_ref());
    let known: BTreeSet<String> = referenced_titles(of_check);
    let suspicious = quotas.iter().filter(|(name, amount)| {
        response.quotas.get(*name).is_some_and(|grant| {
            let duration = grant.valid_duration.map(|duration| (duration.seconds, duration.nanos));
            grant.granted_amount == **amount
                && **amount > 0
                && duration == Some((UNALLOCATED_SECONDS, 0))
                && referenced_titles(grant.referenced_attributes.as_ref()).is_subset(&known)
        })
    });
    let line = |(name, _): (&String, &i64)| {
        format!(
            "the quota `{name}` was granted in full for 1m and no attribute was read for it, as where no rule allocates \
             it for the request; `mixer snapshot dump --server HOST --section instances,rules` shows what the server has"
        )
    };
    suspicious.map(line).collect()
}
