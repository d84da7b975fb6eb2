use adjutant_agent::Refusal;

/// A front door that renders one source's tool contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// `subagent` and `shared_context`, as the specification has them.
    #[default]
    Spec,
}

/// Named in the contract, and not served yet.
const LATER: [&str; 4] = ["caliban", "ecs", "xzatoma", "weakincentives"];

impl Dialect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spec => "spec",
        }
    }
}

impl std::str::FromStr for Dialect {
    type Err = Refusal;

    fn from_str(word: &str) -> Result<Self, Refusal> {
        if word == Self::Spec.as_str() {
            Ok(Self::Spec)
        } else if LATER.contains(&word) {
            Err(Refusal::invalid("dialect", format_args!("{word} is not in this release; spec is")))
        } else {
            Err(Refusal::invalid("dialect", "must be spec"))
        }
    }
}
