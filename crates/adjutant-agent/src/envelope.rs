/// A final answer with a summary and a result, in the form that `prompts::ENVELOPE` explains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    pub summary: Option<&'a str>,
    pub result: &'a str,
}

impl<'a> Envelope<'a> {
    /// Parses a text that consists of an envelope only, with a result that is not empty. Any other
    /// text is a plain result, so that nothing of it is lost.
    pub fn parse(text: &'a str) -> Option<Self> {
        let inner = between(text, "<subagent_background_result>", "</subagent_background_result>")?;
        let (summary, rest) = inner.strip_prefix("<summary>")?.split_once("</summary>")?;
        let result = between(rest, "<full_result>", "</full_result>")?;
        let summary = Some(summary.trim()).filter(|summary| !summary.is_empty());
        (!result.is_empty()).then_some(Self { summary, result })
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    text.trim().strip_prefix(start)?.strip_suffix(end).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_has_its_summary_first_and_its_result_last() {
        let text = "\n<subagent_background_result>\n<summary> Short. </summary>\n<full_result>\nLong,\nwith </full_result> in it.\n</full_result>\n</subagent_background_result>\n";
        assert_eq!(
            Envelope::parse(text),
            Some(Envelope { summary: Some("Short."), result: "Long,\nwith </full_result> in it." })
        );
        let no_summary = "<subagent_background_result><summary></summary><full_result>Long</full_result></subagent_background_result>";
        assert_eq!(Envelope::parse(no_summary), Some(Envelope { summary: None, result: "Long" }));
    }

    #[test]
    fn what_is_not_quite_an_envelope_is_a_result_as_it_stands() {
        for text in [
            "",
            "plain",
            "<summary>s</summary><full_result>r</full_result>",
            "<subagent_background_result><full_result>r</full_result><summary>s</summary></subagent_background_result>",
            "<subagent_background_result><summary>s</summary></subagent_background_result>",
            "<subagent_background_result><full_result>r</full_result></subagent_background_result>",
            "<subagent_background_result><summary>s</summary> and <full_result>r</full_result></subagent_background_result>",
            "<subagent_background_result><summary>s</summary><full_result>r</full_result>",
            "<subagent_background_result><summary>s</summary><full_result> \n </full_result></subagent_background_result>",
            "Here it is: <subagent_background_result><summary>s</summary><full_result>r</full_result></subagent_background_result>",
        ] {
            assert_eq!(Envelope::parse(text), None, "{text}");
        }
    }
}
