use crate::words::words;

words! {
    /// How many of the tasks that a wait names have to end.
    #[derive(Default)]
    WaitMode {
        #[default]
        Any = "any",
        All = "all",
    }
}
