use crate::word_enum::word_enum;

word_enum! {
    /// Whether a wait ends when any or when all of its tasks have ended.
    #[derive(Default)]
    WaitMode {
        #[default]
        Any = "any",
        All = "all",
    }
}
