//! Pages of a list, each with a cursor to the next.

/// The limit of the query: one more row than wanted shows whether there is a next page.
pub(super) fn one_more(wanted: i64) -> i64 {
    wanted.saturating_add(1)
}

/// One page of a list.
pub(super) struct Page<T, C> {
    pub(super) entries: Vec<T>,
    /// `None` on the last page.
    pub(super) next_cursor: Option<C>,
}

impl<T, C> Page<T, C> {
    /// The page of rows that were queried with [`one_more`]. Its cursor is that of its last entry.
    pub(super) fn of(mut found: Vec<T>, wanted: i64, cursor_of: impl FnOnce(&T) -> C) -> Self {
        let limit = usize::try_from(wanted).unwrap_or(usize::MAX);
        let is_last = found.len() <= limit;
        found.truncate(limit);
        let next_cursor = found.last().filter(|_| !is_last).map(cursor_of);
        Self { entries: found, next_cursor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_cursor_only_if_there_are_more_rows() {
        for (found, entries, next_cursor) in [
            (vec![], vec![], None),
            (vec![1], vec![1], None),
            (vec![1, 2], vec![1, 2], None),
            (vec![1, 2, 3], vec![1, 2], Some(2)),
        ] {
            let page = Page::of(found, 2, |last| *last);
            assert_eq!((page.entries, page.next_cursor), (entries, next_cursor));
        }
    }
}
