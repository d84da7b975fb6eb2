//! Which fields the actions of our tools have: what is read, and what the documents say.

use crate::ContextAction;

/// One way to call an action: the fields that it needs, and those that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionForm {
    pub needed: &'static [&'static str],
    pub optional: &'static [&'static str],
}

impl ActionForm {
    pub const fn new(
        needed: &'static [&'static str],
        optional: &'static [&'static str],
    ) -> ActionForm {
        ActionForm { needed, optional }
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
