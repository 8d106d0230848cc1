//! The foundation of every other crate. It knows nothing of requests, rules or adapters, and nothing in it may block or fail a
//! request.
//!
//! | module | subject |
//! | --- | --- |
//! | [`allocation`] | bytes that a piece of work holds, and a bound for them |
//! | [`bounded`] | hash table with a budget of bytes |
//! | [`budget`] | bytes of everything that callers can make a server keep |
//! | [`build_info`] | version and build stamps |
//! | [`decimal`] | numbers as the text that Go prints |
//! | [`degradation`] | components that do not work as they should while the process serves |
//! | [`dial`] | TCP connections to a host that may have several addresses |
//! | [`exposition`] | the text format of Prometheus |
//! | [`file_stamp`] | metadata by which changes of files are detected |
//! | [`file_writer`] | whether a file is open for writing |
//! | [`http_status`] | names of HTTP statuses |
//! | [`json`] | string escaping of JSON log lines |
//! | [`load`] | how far loads are that take long |
//! | [`log`] | log records: scopes, levels, formats, sinks |
//! | [`memory`] | returning free memory to the system |
//! | [`metrics`] | the server's own metrics |
//! | [`output_file`] | whether lines can be appended to a file |
//! | [`pages`] | buffers of long messages |
//! | [`pool`] | adaptive concurrency limits |
//! | [`probe`] | liveness and readiness, and probe files |
//! | [`quote`] | text in quotes with Go's escapes |
//! | [`regular_file`] | reading files without blocking on FIFOs and devices |
//! | [`rate_limit`] | rate limits of log records |
//! | [`rotate`] | log file rotation |
//! | [`rpc_code`] | names of gRPC status codes |
//! | [`sample`] | random sampling |
//! | [`scheduling`] | threads that answer calls, and those that give way to them |
//! | [`secrets`] | masking of secrets |
//! | [`shard`] | per-worker shards and sharded counters |
//! | [`shared_map`] | persistent sorted map |
//! | [`suggestion`] | names that misspelt ones probably mean |
//! | [`task`] | supervision of threads and tasks |
//! | [`time`] | timestamps and durations with Go's text forms |
//! | [`url`] | URL references as Go's `net/url` divides them |

pub mod allocation;
pub mod bounded;
pub mod budget;
pub mod build_info;
pub mod components;
pub mod decimal;
pub mod degradation;
pub mod dial;
pub mod exposition;
pub mod file_stamp;
pub mod file_writer;
pub mod http_status;
pub mod json;
pub mod load;
pub mod log;
pub mod looks;
pub mod memory;
pub mod metrics;
pub mod output_file;
pub mod pages;
pub mod pool;
pub mod probe;
pub mod quote;
pub mod rate_limit;
pub mod regular_file;
pub mod resident;
pub mod rotate;
pub mod rpc_code;
pub mod sample;
pub mod scheduling;
pub mod secrets;
pub mod shard;
pub mod shared_map;
pub mod suggestion;
pub mod task;
pub mod time;
pub mod url;
