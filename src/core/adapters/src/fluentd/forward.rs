//! The forward protocol: <https://github.com/fluent/fluentd/wiki/Forward-Protocol-Specification-v1>.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmp::encode as msgpack;

use mixer_delivery::{AsyncSink, Items as _, List, Tally};
use mixer_remote::{Answer, StreamTarget};

use crate::outage::Outage;

use super::entry::{Entry, length, push_text};
use super::read::{Unreadable, Value, value};

/// How an acknowledgement begins: a map of one entry, `ack`.
const ACKNOWLEDGEMENT: &[u8] = b"\x81\xa3ack";
/// Bytes of an acknowledgement at most.
const MAX_ACKNOWLEDGEMENT: usize = 256;
/// Chunks that are on their way at once at most.
const MAX_CHUNKS: usize = 256;

/// Sends entries.
pub(super) struct Forwarder {
    pub(super) target: StreamTarget,
    /// Whether the server acknowledges chunks.
    pub(super) acknowledge: bool,
    pub(super) outage: Outage,
}

impl AsyncSink<List<Entry>> for Forwarder {
    async fn deliver(&mut self, batch: &mut List<Entry>, tally: &mut Tally) {
        let forwarded = match self.acknowledge {
            true => self.forward(batch, tally).await,
            false => self.write(batch, tally).await,
        };
        match forwarded {
            Ok(()) => self.outage.ended(),
            Err(why) => {
                self.outage.failed(&why);
                tally.try_again(why);
            }
        }
    }
}

impl Forwarder {
    /// Without acknowledgements. Errors: why the batch is to be sent again.
    async fn write(&mut self, batch: &mut List<Entry>, tally: &mut Tally) -> Result<(), String> {
        let bytes = messages(batch.as_slice());
        match self.target.send(&bytes).await {
            Answer::Delivered => {
                tally.delivered(batch.len());
                Ok(())
            }
            Answer::Retry { why, .. } | Answer::Refused(why) => Err(why),
        }
    }

    /// With acknowledgements; what is acknowledged leaves the batch. Errors: why the rest is to be sent again.
    async fn forward(&mut self, batch: &mut List<Entry>, tally: &mut Tally) -> Result<(), String> {
        while !batch.is_empty() {
            let (bytes, chunks) = chunks(batch.as_slice());
            let is_complete = |answer: &[u8]| match acknowledgements(answer) {
                Ok(found) => found.len() >= chunks.len(),
                // More bytes would not help.
                Err(Unreadable) => true,
            };
            let most = chunks.len() * MAX_ACKNOWLEDGEMENT;
            // What is acknowledged before a failure is not sent again.
            let (answer, failure) = match self.target.exchange(&bytes, most, is_complete).await {
                Ok(answer) => (answer, None),
                Err(unanswered) => (unanswered.received, Some(unanswered.why)),
            };
            let found = acknowledgements(&answer).unwrap_or_default();
            let mut acknowledged = 0;
            for (chunk, found) in chunks.iter().zip(&found) {
                if chunk.id.as_bytes() != *found {
                    break;
                }
                acknowledged += chunk.entries;
            }
            for _ in 0..acknowledged {
                batch.pop();
            }
            tally.delivered(acknowledged);
            if acknowledged < chunks.iter().map(|chunk| chunk.entries).sum() {
                self.target.disconnect();
                return Err(match failure {
                    Some(why) => why,
                    None if is_handshake(&answer) => {
                        "the server asks for a shared key: set `sharedKey`".to_owned()
                    }
                    None => "the answer is not the acknowledgement of the chunk".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// One message an entry, without acknowledgement: `[tag, time, record, nil]`.
fn messages(entries: &[Entry]) -> Vec<u8> {
    let mut out =
        Vec::with_capacity(entries.iter().map(|entry| entry.record.len() + entry.tag.len() + 16).sum());
    for entry in entries {
        // Writing to a Vec cannot fail.
        let _ = msgpack::write_array_len(&mut out, 4);
        push_text(&mut out, &entry.tag);
        let _ = msgpack::write_sint(&mut out, entry.time);
        out.extend_from_slice(&entry.record);
        let _ = msgpack::write_nil(&mut out);
    }
    out
}

/// Entries with one tag that are acknowledged together.
struct Chunk {
    id: String,
    entries: usize,
}

/// The first entries, as one message for all that follow each other with one tag: `[tag, [[time, record], …], {size, chunk}]`.
fn chunks(entries: &[Entry]) -> (Vec<u8>, Vec<Chunk>) {
    let mut out = Vec::new();
    let mut chunks = Vec::new();
    for run in entries.chunk_by(|a, b| a.tag == b.tag).take(MAX_CHUNKS) {
        let Some(first) = run.first() else { continue };
        let id = STANDARD.encode(fastrand::u128(..).to_le_bytes());
        // Writing to a Vec cannot fail.
        let _ = msgpack::write_array_len(&mut out, 3);
        push_text(&mut out, &first.tag);
        let _ = msgpack::write_array_len(&mut out, length(run.len()));
        for entry in run {
            let _ = msgpack::write_array_len(&mut out, 2);
            let _ = msgpack::write_sint(&mut out, entry.time);
            out.extend_from_slice(&entry.record);
        }
        let _ = msgpack::write_map_len(&mut out, 2);
        push_text(&mut out, b"size");
        let _ = msgpack::write_uint(&mut out, run.len() as u64);
        push_text(&mut out, b"chunk");
        push_text(&mut out, id.as_bytes());
        chunks.push(Chunk { id, entries: run.len() });
    }
    (out, chunks)
}

/// The ids of the complete acknowledgements at the beginning: `{"ack": id}` each. Errors: something else.
fn acknowledgements(mut answer: &[u8]) -> Result<Vec<&[u8]>, Unreadable> {
    let mut ids = Vec::new();
    loop {
        // Something else is noticed although it is incomplete.
        if answer.iter().zip(ACKNOWLEDGEMENT).any(|(found, expected)| found != expected) {
            return Err(Unreadable);
        }
        let Some(message) = value(&mut answer)? else { return Ok(ids) };
        let Value::Map(entries) = message else { return Err(Unreadable) };
        let [(Value::Text(b"ack"), Value::Text(id))] = entries.as_slice() else { return Err(Unreadable) };
        ids.push(*id);
    }
}

/// Whether an answer is the begin of a handshake.
fn is_handshake(answer: &[u8]) -> bool {
    answer.starts_with(b"\x92\xa4HELO")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_are_read_as_they_arrive() {
        let mut answer = b"\x81\xa3ack\xa4abc=".to_vec();
        answer.extend(b"\x81\xa3ack\xd9\x21");
        answer.extend([b'x'; 33]);
        assert_eq!(acknowledgements(&answer), Ok(vec![&b"abc="[..], &[b'x'; 33]]));
        for cut in 0..answer.len() {
            let found = acknowledgements(&answer[..cut]).unwrap();
            assert_eq!(found.len(), usize::from(cut >= 10), "{cut} bytes");
        }
        for other in [&b"\x80"[..], b"\x81\xa3nak", b"\x81\x01", b"HTTP/1.1 400", b"\x81\xa3ack\xc0"] {
            assert_eq!(acknowledgements(other), Err(Unreadable), "{other:?}");
        }
    }

    #[test]
    fn entries_with_one_tag_are_one_chunk() {
        let entry = |tag: &str| Entry { time: 1, tag: tag.as_bytes().into(), record: Box::new([0x80]) };
        let entries: Vec<Entry> = ["a", "a", "b", "a"].into_iter().map(entry).collect();
        let (_, found) = chunks(&entries);
        assert_eq!(found.iter().map(|chunk| chunk.entries).collect::<Vec<_>>(), [2, 1, 1]);
        assert!(found.iter().all(|chunk| chunk.id.len() == 24));
        assert_ne!(found[0].id, found[1].id);
        let many: Vec<Entry> = (0..1000).map(|number| entry(&number.to_string())).collect();
        assert_eq!(chunks(&many).1.len(), MAX_CHUNKS);
    }
}
