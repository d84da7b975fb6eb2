//! The fields of each action of our tools, for the parsers and for the documentation.

use crate::ContextAction;

/// One form of an action's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionForm {
    pub required: &'static [&'static str],
    pub optional: &'static [&'static str],
}

impl ActionForm {
    pub const fn new(
        required: &'static [&'static str],
        optional: &'static [&'static str],
    ) -> ActionForm {
        ActionForm { required, optional }
    }
}

impl ContextAction {
    pub fn forms(self) -> &'static [ActionForm] {
        match self {
            Self::ListKeys => const { &[ActionForm::new(&[], &[])] },
            Self::Read | Self::Delete => const { &[ActionForm::new(&["key"], &[])] },
            Self::Write => const { &[ActionForm::new(&["key", "value"], &[])] },
            Self::ReadBatch => const { &[ActionForm::new(&["keys"], &[])] },
            Self::ReadHistory => const { &[ActionForm::new(&["key"], &["limit"])] },
            Self::Snapshot | Self::ReadSnapshot => const { &[ActionForm::new(&["label"], &[])] },
        }
    }
}
