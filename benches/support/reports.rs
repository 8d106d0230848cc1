//! Reports of many bags.

use mixer_attribute::request::{ReportWords, Semantics, encode_report_request};
use mixer_attribute::{GLOBAL_WORDS, OwnedAttributes, SignedDuration};

use super::attributes;

/// A ReportRequest of `bags` bags with shared words and independent attributes, as proxies send it.
pub(crate) fn report(number: usize, bags: usize) -> Vec<u8> {
    let bags: Vec<OwnedAttributes> = (0..bags).map(|i| bag(number * bags + i)).collect();
    let words = u32::try_from(GLOBAL_WORDS.len()).unwrap_or(0);
    encode_report_request(&bags, words, ReportWords::Shared, Semantics::Independent)
}

fn bag(number: usize) -> OwnedAttributes {
    let mut bag = attributes::request(number, "productpage.default.svc.cluster.local", "istio-system");
    let millis = i64::try_from(number % 40).unwrap_or(0);
    bag.insert("response.code", if number.is_multiple_of(10) { 503 } else { 200 });
    bag.insert("response.duration", SignedDuration::from_millis(millis));
    bag.insert("response.size", 1024 + millis);
    bag
}
