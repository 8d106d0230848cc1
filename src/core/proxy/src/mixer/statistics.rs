//! What the Mixer filters count.

use crate::stats::{Kind, Stat};

/// Defines the counters: an index and a name for each.
macro_rules! counters {
    ($($variant:ident $text:literal,)*) => {
        /// A counter of the Mixer filters.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum MixerStat {
            $($variant,)*
        }

        impl Stat for MixerStat {
            const NAMES: &'static [(&'static str, Kind)] = &[$(($text, Kind::Counter),)*];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

counters! {
    CheckCalls "total_check_calls",
    CheckFailOpens "total_check_fail_opens",
    CheckOverflows "total_check_overflows",
    CheckOversized "total_check_oversized",
    CheckCacheHits "total_check_cache_hits",
    CheckCacheMisses "total_check_cache_misses",
    CheckCacheHitAccepts "total_check_cache_hit_accepts",
    CheckCacheHitDenies "total_check_cache_hit_denies",
    RemoteCheckCalls "total_remote_check_calls",
    RemoteCheckAccepts "total_remote_check_accepts",
    RemoteCheckDenies "total_remote_check_denies",
    BlockingRemoteCheckCalls "total_blocking_remote_check_calls",
    QuotaCalls "total_quota_calls",
    QuotaCacheHits "total_quota_cache_hits",
    QuotaCacheMisses "total_quota_cache_misses",
    QuotaCacheHitAccepts "total_quota_cache_hit_accepts",
    QuotaCacheHitDenies "total_quota_cache_hit_denies",
    RemoteQuotaCalls "total_remote_quota_calls",
    RemoteQuotaAccepts "total_remote_quota_accepts",
    RemoteQuotaDenies "total_remote_quota_denies",
    RemoteQuotaPrefetchCalls "total_remote_quota_prefetch_calls",
    BlockingRemoteQuotaCalls "total_blocking_remote_quota_calls",
    RemoteCalls "total_remote_calls",
    RemoteCallSuccesses "total_remote_call_successes",
    RemoteCallTimeouts "total_remote_call_timeouts",
    RemoteCallSendErrors "total_remote_call_send_errors",
    RemoteCallOtherErrors "total_remote_call_other_errors",
    RemoteCallRetries "total_remote_call_retries",
    RemoteCallCancellations "total_remote_call_cancellations",
    ReportCalls "total_report_calls",
    RemoteReportCalls "total_remote_report_calls",
    RemoteReportSuccesses "total_remote_report_successes",
    RemoteReportTimeouts "total_remote_report_timeouts",
    RemoteReportSendErrors "total_remote_report_send_errors",
    RemoteReportOtherErrors "total_remote_report_other_errors",
}
