//! A parallel map that keeps the order.

/// Applies `work` to every item. Uses a thread per `least` items, up to one per core and eight.
pub(super) fn map<I: Sync, T: Send>(items: &[I], least: usize, work: impl Fn(&I) -> T + Sync) -> Vec<T> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let threads = cores.min(items.len() / least.max(1)).max(1);
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let share = items.len().div_ceil(threads);
    let work = &work;
    std::thread::scope(|scope| {
        let parts = items.chunks(share).map(|part| {
            let worker = move || part.iter().map(work).collect::<Vec<_>>();
            (part, scope.spawn(worker))
        });
        let parts = parts.collect::<Vec<_>>();
        // If a thread panics, this thread repeats its share and so propagates the panic.
        parts
            .into_iter()
            .flat_map(|(part, thread)| thread.join().unwrap_or_else(|_| part.iter().map(work).collect()))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_their_order() {
        for length in [0, 1, 5, 1000] {
            let items = (0..length).collect::<Vec<_>>();
            let doubled = super::map(&items, 2, |i| i * 2);
            assert_eq!(doubled, items.iter().map(|i| i * 2).collect::<Vec<_>>());
        }
    }
}
