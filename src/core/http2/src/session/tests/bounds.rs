//! What a client can make a connection keep: output, windows, requests.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::super::stream::{ANSWER_MEMORY, CALL_MEMORY};
use super::super::super::{CountedBody as _, MemoryAccount};
use super::super::output::FREE_OUTPUT;
use super::*;

const FRAME: usize = 16_384;

/// A session with these limits that has received preface and SETTINGS, with empty output.
fn open_with(limits: Limits, account: impl MemoryAccount + 'static) -> Session {
    let mut session = Session::new(limits, &GRPC, account);
    let hello = [PREFACE, &frame(frame_type::SETTINGS, 0, 0, &[])].concat();
    session.receive(&hello).unwrap();
    sent(&mut session);
    session
}

/// An account that counts what is taken from it, with its limit.
#[derive(Debug, Clone, Default)]
struct Counted(Arc<AtomicUsize>, usize);

impl Counted {
    fn of(limit: usize) -> Self {
        Self(Arc::default(), limit)
    }

    fn taken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl MemoryAccount for Counted {
    fn acquire(&self, bytes: usize) -> bool {
        let fits = self.taken() + bytes <= self.1;
        self.0.fetch_add(if fits { bytes } else { 0 }, Ordering::Relaxed);
        fits
    }

    fn release(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Complete requests on the first `count` streams.
fn calls(count: u32) -> Vec<Vec<u8>> {
    (0..count).map(|number| headers(number * 2 + 1, true, POST)).collect()
}

#[test]
fn sent_output_is_freed_while_the_client_reads_slowly() {
    let mut session = open();
    receive(&mut session, &[window_update(0, 1 << 30)]).unwrap();
    let mut peak = 0;
    for turn in 0..4000 {
        receive(&mut session, &[headers(turn * 2 + 1, true, POST)]).unwrap();
        let id = next(&mut session).stream;
        session.send_fixed_response(id, Bytes::from(vec![0; 1000]));
        // The client never takes the last bytes.
        let count = session.output().len() - 10;
        session.advance(count);
        peak = peak.max(session.output.capacity());
    }
    assert!(peak <= 8 * FREE_OUTPUT, "{peak} bytes for {} unsent ones", session.output().len());
}

#[test]
fn responses_wait_while_the_output_is_full() {
    let mut session = open_with(Limits { max_streams: 1000, ..LIMITS }, UnlimitedMemory);
    receive(&mut session, &[setting(4, 1 << 30), window_update(0, 1 << 30)]).unwrap();
    receive(&mut session, &calls(1000)).unwrap();
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::from(vec![0; 10_000]));
    }
    let queued = session.output().len();
    assert!(queued < MAX_OUTPUT + (64 << 10), "{queued} bytes of 10 MB");
    let mut words = Vec::new();
    while !session.output().is_empty() {
        words.extend(sent(&mut session));
        session.send_blocked();
    }
    assert_eq!(words.iter().filter(|word| word.starts_with("data ")).count(), 1000);
    assert_eq!(session.streams.len(), 0);
}

#[test]
fn an_initial_window_may_not_overflow_the_window_of_an_open_stream() {
    const MAX: u32 = (1 << 31) - 1;
    let begun = || {
        let mut session = open();
        let frames = [headers(1, true, POST), headers(3, true, POST), window_update(3, 1000)];
        receive(&mut session, &frames).unwrap();
        session
    };
    let mut session = begun();
    assert_eq!(receive(&mut session, &[setting(4, MAX - 1000), setting(4, 0)]), Ok(()));
    let overflow = receive(&mut session, &[setting(4, MAX - 999)]);
    assert_eq!(overflow.unwrap_err().code, ErrorCode::FLOW_CONTROL_ERROR);
    // What was sent on a stream leaves room again, and so does its end.
    let mut session = begun();
    assert_eq!(receive(&mut session, &[setting(4, 100)]), Ok(()));
    session.send_headers(3, StatusCode::OK, &HeaderMap::new(), false);
    session.send_data(3, Bytes::from(vec![0; 400]));
    assert_eq!(receive(&mut session, &[setting(4, MAX - 600)]), Ok(()));
    assert_eq!(receive(&mut session, &[frame(frame_type::RST_STREAM, 0, 3, &[0; 4])]), Ok(()));
    assert_eq!(receive(&mut session, &[setting(4, MAX)]), Ok(()));
    session.send_fixed_response(1, Bytes::from_static(b"x"));
    assert!(sent(&mut session).ends_with(&["headers 1 end".to_owned()]));
}

#[test]
fn an_entry_of_settings_does_not_visit_the_streams() {
    let mut session = open_with(Limits { max_streams: 1000, ..LIMITS }, UnlimitedMemory);
    receive(&mut session, &calls(1000)).unwrap();
    receive(&mut session, &[window_update(1, 5000), window_update(3, 70)]).unwrap();
    // Only an out of date bound makes the session visit them, once.
    let reset = frame(frame_type::RST_STREAM, 0, 1, &[0; 4]);
    receive(&mut session, &[reset, setting(4, 1 << 20)]).unwrap();
    assert_eq!(session.max_send_credit, 5000);
    let largest = setting(4, (1 << 31) - 1 - 70);
    receive(&mut session, &[largest.clone(), largest.clone(), largest]).unwrap();
    assert_eq!(session.max_send_credit, 70);
}

/// The streams that wait.
fn waiting(session: &Session) -> Vec<u32> {
    session.blocked.all().collect()
}

#[test]
fn blocked_streams_are_tried_when_something_changed() {
    let mut session = open();
    receive(&mut session, &[setting(4, 0), headers(1, true, POST), headers(3, true, POST)]).unwrap();
    session.send_fixed_response(1, Bytes::from_static(b"one"));
    session.send_fixed_response(3, Bytes::from_static(b"two"));
    sent(&mut session);
    assert!(!session.send_blocked());
    assert_eq!(waiting(&session), [1, 3]);
    receive(&mut session, &[frame(frame_type::PING, 0, 0, b"12345678")]).unwrap();
    assert!(!session.blocked.has_next(true), "a PING opens no window");
    receive(&mut session, &[frame(frame_type::RST_STREAM, 0, 3, &[0; 4])]).unwrap();
    session.send_blocked();
    assert_eq!(waiting(&session), [1]);
    receive(&mut session, &[window_update(1, 3)]).unwrap();
    assert!(session.send_blocked());
    assert_eq!(session.blocked.len(), 0);
}

#[test]
fn answers_without_window_are_not_visited_for_others() {
    let mut session = open_with(Limits { max_streams: 1000, ..LIMITS }, UnlimitedMemory);
    receive(&mut session, &[setting(4, 0)]).unwrap();
    receive(&mut session, &calls(1000)).unwrap();
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::from_static(b"answer"));
        // Nothing that was written, and no window of the connection, lets one go on.
        sent(&mut session);
        assert!(!session.blocked.has_next(true));
    }
    receive(&mut session, &[window_update(0, 1 << 20)]).unwrap();
    assert!(!session.send_blocked());
    // One that is closed leaves the others alone, and one that gets window is the only one that is visited.
    receive(&mut session, &[frame(frame_type::RST_STREAM, 0, 3, &[0; 4]), window_update(1001, 2)]).unwrap();
    let began = session.blocked.began();
    assert!(session.send_blocked());
    assert_eq!(sent(&mut session), ["data 1001 2"]);
    assert_eq!((session.blocked.len(), session.blocked.began()), (999, began), "it waits again");
    assert!(!session.send_blocked());
    // A larger initial window lets all go on, some at a time.
    receive(&mut session, &[setting(4, 6), window_update(1001, 4)]).unwrap();
    let mut ended = 0;
    while session.send_blocked() {
        let words = sent(&mut session);
        assert!(words.len() <= 2 * 64 + 1, "{} frames at once", words.len());
        ended += words.iter().filter(|word| word.starts_with("headers ")).count();
    }
    assert_eq!((ended, session.blocked.len(), session.streams.len()), (999, 0, 0));
}

#[test]
fn answers_wait_for_the_connection_in_order() {
    let mut session = open_with(Limits { max_streams: 1000, ..LIMITS }, UnlimitedMemory);
    receive(&mut session, &[setting(4, 1 << 20)]).unwrap();
    receive(&mut session, &calls(5)).unwrap();
    for id in [9, 7, 5, 3, 1] {
        // The first one takes the window of the connection, and something is left of it.
        session.send_fixed_response(id, Bytes::from(vec![0; if id == 9 { 65_635 } else { 100 }]));
    }
    sent(&mut session);
    assert!(!session.send_blocked(), "nothing can go on");
    for expected in [9, 7, 5, 3, 1] {
        let began = session.blocked.began();
        receive(&mut session, &[window_update(0, 100)]).unwrap();
        session.send_blocked();
        assert_eq!(sent(&mut session), [format!("data {expected} 100"), format!("headers {expected} end")]);
        assert_eq!(session.blocked.began(), began, "no other one was visited");
    }
}

#[test]
fn a_watched_stream_is_told_once_it_is_drained_or_closed() {
    let mut session = open_with(Limits { max_streams: 10, ..LIMITS }, UnlimitedMemory);
    receive(&mut session, &[setting(4, 0)]).unwrap();
    receive(&mut session, &calls(4)).unwrap();
    for id in [1, 3, 5] {
        session.send_headers(id, StatusCode::OK, &HeaderMap::new(), false);
        session.send_data(id, Bytes::from_static(b"abc"));
        assert_eq!(session.watch_drained(id), Some(false));
    }
    assert_eq!((session.watch_drained(7), session.watch_drained(9)), (Some(true), None));
    receive(&mut session, &[window_update(1, 2)]).unwrap();
    session.send_blocked();
    assert_eq!(session.next_drained(), None);
    receive(&mut session, &[frame(frame_type::RST_STREAM, 0, 5, &[0; 4]), window_update(1, 1)]).unwrap();
    session.send_blocked();
    let told: Vec<u32> = std::iter::from_fn(|| session.next_drained()).collect();
    assert_eq!(told, [5, 1]);
    assert_eq!((session.is_drained(1), session.is_drained(3)), (Some(true), Some(false)));
    // What follows is watched anew.
    session.send_data(1, Bytes::from_static(b"more"));
    receive(&mut session, &[window_update(1, 4)]).unwrap();
    session.send_blocked();
    assert_eq!((session.is_drained(1), session.next_drained()), (Some(true), None));
}

#[test]
fn requests_in_memory_are_bounded_by_connection() {
    let limits = Limits { max_streams: 100, max_request_bytes: 11 * FRAME, ..LIMITS };
    let mut session = open_with(limits, UnlimitedMemory);
    let full = vec![0; FRAME];
    let mut bodies = Vec::new();
    for id in [1, 3, 5] {
        receive(&mut session, &[headers(id, false, POST)]).unwrap();
        let mut body = next(&mut session).body;
        for _ in 0..3 {
            receive(&mut session, &[data(id, false, &full)]).unwrap();
        }
        // What a reader has taken still counts.
        assert_eq!(piece(&mut body), Poll::Ready(Some(3 * FRAME)));
        bodies.push(body);
    }
    assert_eq!(sent(&mut session), Vec::<String>::new());
    receive(&mut session, &[data(3, false, &full)]).unwrap();
    assert_eq!(sent(&mut session), ["reset 3 11"], "ENHANCE_YOUR_CALM");
    bodies.remove(1);
    // The end of a request is taken whatever is in memory, and so is a request of one frame.
    receive(&mut session, &[data(1, true, &full), headers(7, false, POST), data(7, true, &full)]).unwrap();
    assert_eq!(sent(&mut session), Vec::<String>::new());
    let mut complete = next(&mut session);
    assert_eq!(complete.body.take_complete().map(|body| body.len()), Some(FRAME));
    // A request counts until it is answered and its body is dropped, or its reader has used what it took.
    let one = 3 * FRAME + complete.head.memory();
    assert_eq!(session.flow_control.held(), 2 * (one + CALL_MEMORY));
    session.send_fixed_response(1, Bytes::new());
    assert_eq!(session.flow_control.held(), 2 * one + CALL_MEMORY);
    bodies.remove(0);
    assert_eq!(session.flow_control.held(), one + CALL_MEMORY);
    bodies[0].keep(100);
    assert_eq!(session.flow_control.held(), 100 + CALL_MEMORY);
}

#[test]
fn requests_count_in_the_account_of_the_process() {
    let account = Counted::of(15 * 4096 - 1);
    let mut session = open_with(LIMITS, account.clone());
    let full = vec![0; FRAME];
    // A request of one frame takes nothing, one that begins with little neither.
    receive(&mut session, &[headers(1, false, POST), data(1, true, &full), headers(3, false, POST)]).unwrap();
    receive(&mut session, &[data(3, false, &[0; 500])]).unwrap();
    let (complete, mut small) = (next(&mut session), next(&mut session));
    assert_eq!(account.taken(), 0);
    receive(&mut session, &[data(3, false, &full)]).unwrap();
    assert_eq!(piece(&mut small.body), Poll::Ready(Some(500 + FRAME)));
    assert_eq!(account.taken(), 3 * 4096);
    receive(&mut session, &[headers(5, false, POST), data(5, false, &full), data(5, false, &full)]).unwrap();
    assert_eq!(sent(&mut session), Vec::<String>::new());
    receive(&mut session, &[data(5, false, &full)]).unwrap();
    assert_eq!(sent(&mut session), ["reset 5 11"]);
    assert_eq!(account.taken(), 3 * 4096, "a reset returns what the stream took");
    assert!(session.next_request().is_none());
    drop(small);
    receive(&mut session, &[frame(frame_type::RST_STREAM, 0, 3, &[0; 4])]).unwrap();
    assert_eq!(account.taken(), 0);
    // One that was complete when it was delivered counts as well.
    let frames = [headers(7, false, POST), data(7, false, &full), data(7, false, &full), data(7, true, b"x")];
    receive(&mut session, &frames).unwrap();
    let last = next(&mut session);
    assert!(session.streams[&7].is_half_closed);
    assert_eq!(account.taken(), 4 * 4096);
    drop((session, complete));
    assert_eq!(account.taken(), 4 * 4096, "the body outlives its connection");
    assert_eq!(read(last.body).unwrap().unwrap().len(), 2 * FRAME + 1);
    assert_eq!(account.taken(), 0);
}

#[test]
fn streams_are_refused_when_their_heads_do_not_fit() {
    let limits = Limits { max_streams: 100, max_header_bytes: 16_384, max_request_bytes: FRAME };
    let mut session = open_with(limits, Counted::of(0));
    let long = [POST, &[0, 1, b'x', 127, 0x81, 0x17], &[b'y'; 3072]].concat();
    let calls: Vec<Vec<u8>> = [1, 3, 5].map(|id| headers(id, false, &long)).into();
    receive(&mut session, &calls).unwrap();
    let first = next(&mut session);
    assert_eq!(first.stream, 1);
    assert!(session.next_request().is_none());
    assert_eq!(sent(&mut session), ["reset 3 7", "reset 5 7"], "REFUSED_STREAM: nothing was processed");
    receive(&mut session, &[headers(7, true, &long)]).unwrap();
    assert_eq!(next(&mut session).stream, 7, "a complete request is served");
}

#[test]
fn answers_that_find_no_window_count_in_memory() {
    const DATA: usize = 10_000;
    const ANSWER: usize = DATA + ANSWER_MEMORY;
    let limits = Limits { max_streams: 1000, max_request_bytes: 100 * ANSWER, ..LIMITS };
    let account = Counted::of(usize::MAX);
    let mut session = open_with(limits, account.clone());
    receive(&mut session, &[setting(4, 0)]).unwrap();
    receive(&mut session, &calls(1000)).unwrap();
    let (mut resets, mut answered) = (0, 0);
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::from(vec![0; DATA]));
        answered += 1;
        resets +=
            sent(&mut session).iter().filter(|word| **word == format!("reset {} 11", request.stream)).count();
    }
    assert_eq!((answered, resets), (1000, 900), "ENHANCE_YOUR_CALM at the bound");
    assert_eq!((session.flow_control.held(), session.streams.len()), (100 * ANSWER, 100));
    assert!(account.taken() > 98 * ANSWER, "{} bytes", account.taken());
    // What is sent, reset or closed no longer counts.
    receive(&mut session, &[window_update(1, 4000), frame(frame_type::RST_STREAM, 0, 3, &[0; 4])]).unwrap();
    session.send_blocked();
    assert_eq!(session.flow_control.held(), 99 * ANSWER - 4000);
    receive(&mut session, &[setting(4, 1 << 20), window_update(0, 1 << 24)]).unwrap();
    while session.send_blocked() {
        sent(&mut session);
    }
    assert_eq!((session.flow_control.held(), account.taken(), session.streams.len()), (0, 0, 0));
    // The account of the process is a bound as well.
    let mut session = open_with(limits, Counted::of(5 * ANSWER));
    receive(&mut session, &[setting(4, 0)]).unwrap();
    receive(&mut session, &calls(10)).unwrap();
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::from(vec![0; DATA]));
    }
    assert_eq!(session.streams.len(), 6, "five, and the bytes that are free");
}

#[test]
fn an_answer_that_waits_counts_with_its_stream() {
    let account = Counted::of(usize::MAX);
    let mut session = open_with(Limits { max_streams: 1000, ..LIMITS }, account.clone());
    receive(&mut session, &[setting(4, 0)]).unwrap();
    receive(&mut session, &calls(3)).unwrap();
    let ids: [u32; 3] = std::array::from_fn(|_| next(&mut session).stream);
    // An empty answer is sent without a window, and takes nothing.
    session.send_fixed_response(ids[0], Bytes::new());
    assert_eq!(session.flow_control.held(), 0);
    session.send_fixed_response(ids[1], Bytes::from_static(b"x"));
    assert_eq!(session.flow_control.held(), 1 + ANSWER_MEMORY);
    // A streamed one takes it while something waits, and the call as long as it is open.
    assert!(session.hold_call(ids[2]) && session.hold_call(ids[2]), "once");
    session.send_headers(ids[2], StatusCode::OK, &HeaderMap::new(), false);
    session.send_data(ids[2], Bytes::from_static(b"abc"));
    assert_eq!(session.flow_control.held(), 1 + 3 + 2 * ANSWER_MEMORY + CALL_MEMORY);
    receive(&mut session, &[window_update(ids[2], 3)]).unwrap();
    session.send_blocked();
    assert_eq!(session.is_drained(ids[2]), Some(true));
    assert_eq!(session.flow_control.held(), 1 + ANSWER_MEMORY + CALL_MEMORY);
    session.send_end_stream(ids[2], None);
    receive(&mut session, &[window_update(ids[1], 1)]).unwrap();
    session.send_blocked();
    assert_eq!((session.flow_control.held(), session.streams.len()), (0, 0));
    assert!(!session.hold_call(ids[2]), "it is closed");
}

#[test]
fn calls_with_streamed_answers_are_bounded() {
    let limits = Limits { max_streams: 1000, max_request_bytes: 10 * CALL_MEMORY, ..LIMITS };
    let account = Counted::of(usize::MAX);
    let mut session = open_with(limits, account.clone());
    receive(&mut session, &calls(100)).unwrap();
    let mut held = 0;
    while let Some(request) = session.next_request() {
        held += usize::from(session.hold_call(request.stream));
    }
    assert_eq!((held, session.flow_control.held()), (10, 10 * CALL_MEMORY));
    let words = sent(&mut session);
    assert_eq!((words.len(), words[0].as_str()), (90, "reset 21 11"), "ENHANCE_YOUR_CALM");
    assert!(account.taken() > 7 * CALL_MEMORY, "two are free");
    drop(session);
    assert_eq!(account.taken(), 0);
}

#[test]
fn answers_that_do_not_move_are_reset() {
    let mut session = open_with(Limits { max_streams: 10, ..LIMITS }, UnlimitedMemory);
    receive(&mut session, &[setting(4, 0)]).unwrap();
    receive(&mut session, &calls(3)).unwrap();
    for _ in 0..2 {
        let id = next(&mut session).stream;
        session.send_fixed_response(id, Bytes::from_static(b"answer"));
    }
    sent(&mut session);
    session.reset_stalled();
    assert_eq!(sent(&mut session), Vec::<String>::new(), "they were queued since the last call");
    receive(&mut session, &[window_update(3, 1)]).unwrap();
    session.send_blocked();
    assert_eq!(sent(&mut session), ["data 3 1"]);
    session.reset_stalled();
    assert_eq!(sent(&mut session), ["reset 1 11"], "nothing of it was taken");
    session.reset_stalled();
    assert_eq!(sent(&mut session), ["reset 3 11"]);
    assert_eq!(session.streams.keys().collect::<Vec<_>>(), [&5], "a call that is not answered is no concern");
    assert_eq!(session.flow_control.held(), 0);
}

#[test]
fn calls_whose_bodies_have_not_begun_count_in_memory() {
    let limits = Limits { max_streams: 1000, max_request_bytes: 16 * FRAME, ..LIMITS };
    let account = Counted::of(16 * FRAME);
    let mut session = open_with(limits, account.clone());
    let calls: Vec<Vec<u8>> = (0..100).map(|call| headers(2 * call + 1, false, POST)).collect();
    receive(&mut session, &calls).unwrap();
    let mut delivered = Vec::new();
    while let Some(request) = session.next_request() {
        delivered.push(request);
    }
    let most = 16 * FRAME / CALL_MEMORY;
    assert!(delivered.len() < most && delivered.len() > most / 2, "{} of 100", delivered.len());
    assert_eq!(sent(&mut session).len(), 100 - delivered.len(), "the others are refused");
    // A call counts until its stream is closed, even if its reader keeps nothing.
    let held = session.flow_control.held();
    delivered[0].body.keep(0);
    assert!(session.flow_control.held() >= held - delivered[0].head.memory());
    for request in &delivered {
        receive(&mut session, &[frame(frame_type::RST_STREAM, 0, request.stream, &[0; 4])]).unwrap();
    }
    drop(delivered);
    assert_eq!((session.flow_control.held(), account.taken()), (0, 0));
}

#[test]
fn header_blocks_that_do_not_end_count_in_memory() {
    let part = |kind: u8, flags: u8, bytes: usize| frame(kind, flags, 1, &vec![0; bytes]);
    let account = Counted::of(1 << 20);
    let mut session = open_with(LIMITS, account.clone());
    receive(&mut session, &[part(frame_type::HEADERS, 0, FRAME)]).unwrap();
    (0..6).for_each(|_| receive(&mut session, &[part(frame_type::CONTINUATION, 0, FRAME)]).unwrap());
    assert!(account.taken() >= 6 * FRAME, "{} bytes", account.taken());
    drop(session);
    assert_eq!(account.taken(), 0);
    // A complete block is decoded and freed.
    let mut session = open_with(LIMITS, account.clone());
    receive(&mut session, &[frame(frame_type::HEADERS, 0, 1, POST)]).unwrap();
    receive(&mut session, &[frame(frame_type::CONTINUATION, flag::END_HEADERS, 1, &[])]).unwrap();
    assert_eq!((next(&mut session).stream, account.taken()), (1, 0));
    // Without memory the connection ends.
    let mut session = open_with(LIMITS, Counted::of(FRAME));
    receive(&mut session, &[part(frame_type::HEADERS, 0, FRAME)]).unwrap();
    receive(&mut session, &[part(frame_type::CONTINUATION, 0, FRAME)]).unwrap();
    let error = receive(&mut session, &[part(frame_type::CONTINUATION, 0, FRAME)]).unwrap_err();
    assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM);
}

#[test]
fn what_a_connection_keeps_is_counted() {
    let account = Counted::of(usize::MAX);
    let mut session = open_with(LIMITS, account.clone());
    let count = |session: &mut Session, input| {
        session.count_kept(input).unwrap();
        account.taken()
    };
    assert_eq!(count(&mut session, 17_000), 0, "a frame is free");
    let with_input = count(&mut session, 100_000);
    assert!((58_000..=68_000).contains(&with_input), "{with_input}");
    assert_eq!(count(&mut session, 0), 0);
    // What the client does not read counts once.
    receive(&mut session, &[setting(4, 1 << 30), window_update(0, 1 << 30), headers(1, true, POST)]).unwrap();
    session.send_fixed_response(1, Bytes::from(vec![0; 120 << 10]));
    assert!(session.is_congested() || account.taken() > 0);
    let mut lent = Vec::new();
    session.return_output(&mut lent);
    let unread = count(&mut session, 0);
    assert!((80 << 10..250 << 10).contains(&unread), "{unread}");
    let sent = session.output().len() - 100;
    session.advance(sent);
    session.return_output(&mut lent);
    assert_eq!((session.output().len(), count(&mut session, 0)), (100, 0), "a small rest");
    // Field lines in the dynamic table.
    let before = session.decoder.memory();
    let fields: Vec<u8> = (0..100_u8).flat_map(|n| [0x40, 1, b'x', 1, b'a' + n % 26]).collect();
    receive(&mut session, &[headers(3, true, &[POST, &fields].concat())]).unwrap();
    assert!(session.decoder.memory() > before + (8 << 10), "{}", session.decoder.memory());
    count(&mut session, 100_000);
    drop(session);
    assert_eq!(account.taken(), 0);
}

#[test]
fn a_connection_without_memory_is_closed_for_what_it_keeps_beyond_a_frame_only() {
    let limits = Limits { max_request_bytes: FRAME, ..LIMITS };
    let mut session = open_with(limits, Counted::of(16 << 10));
    let begun = [headers(1, false, POST), data(1, false, &[0; 8000])];
    receive(&mut session, &begun).unwrap();
    session.count_kept(FRAME).expect("a frame beside a request that fills the limit of requests");
    session.count_kept(3 * FRAME).expect("there is memory");
    let error = session.count_kept(9 * FRAME).unwrap_err();
    assert_eq!(error.code, ErrorCode::ENHANCE_YOUR_CALM);
    session.count_kept(FRAME).expect("what it kept before is counted once");
}

/// A request that fills the dynamic table, and blocks of 98 bytes that refer to it 96 times: each takes many times as much once decoded.
fn heads_of_references(count: u32) -> Vec<Vec<u8>> {
    let field = [&[0x40, 1, b'x', 127, 0xfc, 0x1d][..], &[b'v'; 0xfc - 0x80 + 0x1d * 128 + 127]].concat();
    let mut frames = vec![headers(1, true, &[POST, &field].concat())];
    let block = [POST, &[0xbe; 12]].concat();
    frames.extend((1..=count).map(|number| headers(number * 2 + 1, true, &block)));
    frames
}

/// A session for 1 000 streams with large heads.
fn open_for_heads(account: impl MemoryAccount + 'static) -> Session {
    open_with(Limits { max_streams: 1000, max_header_bytes: 64 << 10, ..LIMITS }, account)
}

#[test]
fn complete_requests_with_large_heads_wait_undecoded() {
    let mut session = open_for_heads(UnlimitedMemory);
    let input = heads_of_references(600).concat();
    let mut taken = session.receive(&input).unwrap();
    assert!(taken < input.len(), "{} heads wait decoded", session.waiting_requests());
    assert!(session.is_full() && session.waiting_heads <= (128 + 64) << 10, "{}", session.waiting_heads);
    assert_eq!(session.receive(&input[taken..]), Ok(0), "a request must be taken first");
    let mut requests = 0;
    loop {
        while let Some(request) = session.next_request() {
            requests += 1;
            session.send_fixed_response(request.stream, Bytes::new());
        }
        assert_eq!(session.waiting_heads, 0);
        if taken == input.len() {
            break;
        }
        taken += session.receive(&input[taken..]).unwrap();
    }
    assert_eq!(requests, 601);
}

#[test]
fn heads_that_wait_count_in_what_the_connection_keeps() {
    let account = Counted::of(1 << 20);
    let mut session = open_for_heads(account.clone());
    receive(&mut session, &heads_of_references(2)).unwrap();
    let heads = session.waiting_heads;
    assert!(heads > 90_000, "{heads}");
    session.count_kept(0).unwrap();
    assert!(account.taken() > heads - (48 << 10), "{} for {heads}", account.taken());
    // Reset, and taken.
    receive(&mut session, &[frame(frame_type::RST_STREAM, 0, 3, &[0; 4])]).unwrap();
    assert!(session.waiting_heads < heads);
    while session.next_request().is_some() {}
    session.count_kept(0).unwrap();
    assert_eq!(session.waiting_heads, 0);
    drop(session);
    assert_eq!(account.taken(), 0);
}

#[test]
fn requests_that_wait_are_refused_when_there_is_no_memory_for_their_heads() {
    let account = Counted::of(16 << 10);
    let mut session = open_for_heads(account.clone());
    receive(&mut session, &heads_of_references(2)).unwrap();
    session.count_kept(0).expect("the connection goes on");
    assert_eq!(sent(&mut session), ["reset 1 7", "reset 3 7", "reset 5 7"]);
    assert!(session.next_request().is_none());
    receive(&mut session, &[headers(7, true, POST)]).unwrap();
    assert_eq!(next(&mut session).stream, 7);
}

#[test]
fn a_large_head_counts_until_its_request_is_answered() {
    let account = Counted::of(1 << 20);
    let mut session = open_for_heads(account.clone());
    receive(&mut session, &heads_of_references(1)).unwrap();
    let small = headers(5, true, POST);
    receive(&mut session, &[small]).unwrap();
    let _requests: Vec<IncomingRequest> = std::iter::from_fn(|| session.next_request()).collect();
    let held = session.flow_control.held();
    assert!(held > 45_000, "{held}");
    for stream in [1, 3, 5] {
        session.send_fixed_response(stream, Bytes::new());
    }
    assert_eq!(session.flow_control.held(), 0);
}

#[test]
fn streams_count_also_if_their_heads_are_of_the_cache() {
    let account = Counted::of(1 << 20);
    let mut session = open_for_heads(account.clone());
    let requests = calls(1000).concat();
    assert_eq!(receive_all(&mut session, &requests), Ok(requests.len()));
    session.count_kept(0).unwrap();
    let streams = session.streams.len() * size_of::<crate::stream::Stream>();
    // The first one is not of the cache yet.
    let first = session.next_request().expect("a request").stream;
    assert_eq!((session.streams.len(), session.waiting_heads), (1000, 0));
    assert!(account.taken() + (40 << 10) >= streams, "{} of {streams}", account.taken());
    // Without memory they are refused, and the connection goes on.
    let mut poor = open_for_heads(Counted::of(64 << 10));
    assert_eq!(receive_all(&mut poor, &requests), Ok(requests.len()));
    poor.count_kept(0).expect("the connection goes on");
    assert_eq!((poor.streams.len(), poor.waiting_requests()), (0, 0));
    // What is answered counts no longer.
    session.send_fixed_response(first, Bytes::new());
    while let Some(request) = session.next_request() {
        session.send_fixed_response(request.stream, Bytes::new());
    }
    sent(&mut session);
    session.output.shrink_to_fit();
    session.count_kept(0).unwrap();
    assert_eq!(account.taken(), 0);
}
