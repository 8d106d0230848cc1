//! Properties of the engine as a whole, over random rules and requests: indexed rules match like rules evaluated in order, cached
//! answers equal fresh ones, an incremental build equals a full one. And what annotations of rules and handlers do.

#![cfg(test)]

#[path = "engine/at_fault.rs"]
mod at_fault;
#[path = "engine/broken_default.rs"]
mod broken_default;
#[path = "engine/chaos.rs"]
mod chaos;
#[path = "engine/check_cache.rs"]
mod check_cache;
#[path = "engine/compatibility.rs"]
mod compatibility;
#[path = "engine/contained.rs"]
mod contained;
#[path = "engine/decisions.rs"]
mod decisions;
#[path = "engine/default_deny.rs"]
mod default_deny;
#[path = "engine/draft.rs"]
mod draft;
#[path = "engine/dry_run.rs"]
mod dry_run;
#[path = "engine/dry_run_retirement.rs"]
mod dry_run_retirement;
#[path = "engine/edits.rs"]
mod edits;
#[path = "engine/external.rs"]
mod external;
#[path = "engine/first_start.rs"]
mod first_start;
#[path = "engine/fixture.rs"]
mod fixture;
#[path = "engine/generators.rs"]
mod generators;
#[path = "engine/kept.rs"]
mod kept;
#[path = "engine/last_known.rs"]
mod last_known;
#[path = "engine/made_attributes.rs"]
mod made_attributes;
#[path = "engine/mapped_attributes.rs"]
mod mapped_attributes;
#[path = "engine/mistaken_kind.rs"]
mod mistaken_kind;
#[path = "engine/mistakes.rs"]
mod mistakes;
#[path = "engine/moved.rs"]
mod moved;
#[path = "engine/on_config_error.rs"]
mod on_config_error;
#[path = "engine/on_error.rs"]
mod on_error;
#[path = "engine/one_mistake.rs"]
mod one_mistake;
#[path = "engine/patterns.rs"]
mod patterns;
#[path = "engine/policies.rs"]
mod policies;
#[path = "engine/proxy_cache.rs"]
mod proxy_cache;
#[path = "engine/refill.rs"]
mod refill;
#[path = "engine/refusal.rs"]
mod refusal;
#[path = "engine/renamed_files.rs"]
mod renamed_files;
#[path = "engine/retry.rs"]
mod retry;
#[path = "engine/roles.rs"]
mod roles;
#[path = "engine/routing.rs"]
mod routing;
#[path = "engine/schedules.rs"]
mod schedules;
#[path = "engine/slices.rs"]
mod slices;
#[path = "engine/stage.rs"]
mod stage;
#[path = "engine/suggestions.rs"]
mod suggestions;
#[path = "engine/superseded.rs"]
mod superseded;
#[path = "engine/through_galley.rs"]
mod through_galley;
#[path = "engine/together.rs"]
mod together;
#[path = "engine/trials.rs"]
mod trials;
#[path = "engine/unapplied.rs"]
mod unapplied;
#[path = "engine/unchanged.rs"]
mod unchanged;
#[path = "engine/unseen.rs"]
mod unseen;
#[path = "engine/unwritten.rs"]
mod unwritten;
#[path = "engine/waiting.rs"]
mod waiting;
#[path = "engine/world.rs"]
mod world;
#[path = "engine/written_adapter.rs"]
mod written_adapter;
