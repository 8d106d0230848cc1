//! Strongly connected components.

/// The strongly connected components of a graph, each after those that it leads to. Tarjan's algorithm, without recursion.
pub(super) fn components<'g>(count: usize, edges: impl Fn(usize) -> &'g [usize]) -> Vec<Vec<usize>> {
    const NEW: usize = usize::MAX;
    let mut found = Vec::new();
    let (mut order, mut low) = (vec![NEW; count], vec![NEW; count]);
    let mut on_stack = vec![false; count];
    let mut stack: Vec<usize> = Vec::new();
    let mut next = 0;
    for root in 0..count {
        // A node, and how many of its edges were followed.
        let mut path: Vec<(usize, usize)> = Vec::new();
        if order.get(root) == Some(&NEW) {
            path.push((root, 0));
        }
        while let Some((at, followed)) = path.pop() {
            let lowest = |low: &mut Vec<usize>, value: usize| {
                if let Some(known) = low.get_mut(at) {
                    *known = value.min(*known);
                }
            };
            if followed == 0 {
                for table in [&mut order, &mut low] {
                    table.get_mut(at).into_iter().for_each(|entry| *entry = next);
                }
                next += 1;
                stack.push(at);
                on_stack.get_mut(at).into_iter().for_each(|entry| *entry = true);
            } else if let Some(low_of_child) = edges(at).get(followed - 1).and_then(|child| low.get(*child)) {
                let (child, value) = (edges(at).get(followed - 1).copied().unwrap_or(at), *low_of_child);
                if on_stack.get(child) == Some(&true) {
                    lowest(&mut low, value);
                }
            }
            match edges(at).get(followed) {
                Some(child) => {
                    path.push((at, followed + 1));
                    if order.get(*child) == Some(&NEW) {
                        path.push((*child, 0));
                    }
                }
                None if low.get(at) == order.get(at) => {
                    let from = stack.iter().rposition(|other| *other == at).unwrap_or(0);
                    let component = stack.split_off(from);
                    for member in &component {
                        on_stack.get_mut(*member).into_iter().for_each(|entry| *entry = false);
                    }
                    found.push(component);
                }
                None => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::components;

    #[test]
    fn components_come_after_what_they_lead_to() {
        // 0 -> 1 -> 2 -> 1, 2 -> 3, 4 -> 4
        let edges: [&[usize]; 6] = [&[1], &[2], &[1, 3], &[], &[4], &[]];
        let mut found = components(edges.len(), |at| edges[at]);
        found.iter_mut().for_each(|component| component.sort_unstable());
        assert_eq!(found, [vec![3], vec![1, 2], vec![0], vec![4], vec![5]]);
    }

    #[test]
    fn long_chains_need_no_stack() {
        let edges: Vec<Vec<usize>> = (0..200_000).map(|at| vec![at + 1]).collect();
        let found = components(200_001, |at| edges.get(at).map_or(&[], |e| e.as_slice()));
        assert_eq!((found.len(), found[0].as_slice()), (200_001, &[200_000_usize][..]));
    }
}
