use serde::{Deserialize, Serialize};

/// A named bundle of instructions and tools for agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Skill {
    pub name: String,
    /// One line, for the choice among skills.
    pub description: String,
    pub instructions: String,
    /// The names of tools that an agent with this skill has, too.
    pub tools: Vec<String>,
}

impl Skill {
    /// Removes skills with a duplicate name, except for the first, and keeps the order.
    pub fn merged<'a>(skills: impl IntoIterator<Item = &'a Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for skill in skills {
            if !merged.iter().any(|known| known.name == skill.name) {
                merged.push(skill.clone());
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(name: &str, instructions: &str) -> Skill {
        Skill { name: name.to_owned(), instructions: instructions.to_owned(), ..Skill::default() }
    }

    #[test]
    fn row_2_32_the_configs_skills_come_first_and_each_once() {
        let config = [skill("b", "1"), skill("a", "2")];
        let call = [skill("c", "3"), skill("b", "4"), skill("c", "5")];
        let merged = Skill::merged(config.iter().chain(&call));
        assert_eq!(merged, [skill("b", "1"), skill("a", "2"), skill("c", "3")]);
        assert_eq!(config.len(), 2, "what was given stays as it is");
    }
}
