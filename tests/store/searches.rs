//! Searches of the history that take too long for one page.

use std::time::Duration;

use adjutant_store::{Cursor, TaskFilter};
use chrono::{TimeDelta, Utc};

use crate::support::world::World;

/// A search looks at 20,000 tasks before it looks at its clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_stops_early_says_how_far_it_has_come() {
    let world = World::new().await;
    world.old_tasks("tenant", 45_000, "needle").await;
    let store = world.store.with_search_time(Duration::ZERO);
    let needle = TaskFilter {
        tenant: "tenant".to_owned(),
        q: Some("needle".to_owned()),
        ..TaskFilter::default()
    };
    let (mut found, mut pages, mut cursor) = (Vec::new(), 0, None::<Cursor>);
    let mut until = Utc::now() + TimeDelta::seconds(10);
    loop {
        let page = store.tasks(&needle, cursor.as_ref(), 10).await.unwrap();
        pages += 1;
        found.extend(page.tasks);
        let Some(next) = page.next_cursor else {
            assert_eq!((page.searched_until, page.stopped_early), (None, false), "the last page");
            break;
        };
        assert!(page.stopped_early && found.is_empty(), "page {pages}");
        let reached = page.searched_until.unwrap();
        assert!(reached < until, "{reached} is not before {until}");
        until = reached;
        cursor = Some(next.parse().unwrap());
    }
    assert_eq!((pages, found.len()), (3, 1), "the oldest task of all");
    let full = store.tasks(&TaskFilter { q: None, ..needle }, None, 10).await.unwrap();
    assert_eq!((full.tasks.len(), full.stopped_early), (10, false), "a full page");
    assert!(full.next_cursor.is_some() && full.searched_until.is_some());
}
