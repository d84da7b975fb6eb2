use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};

const UNKNOWN: &str = "[content of an unknown type]";

/// The result as text for the agent. Content of other types is replaced by a note.
pub(super) fn text(result: CallToolResult) -> Result<String, String> {
    let has_text = result.content.iter().any(|block| block.as_text().is_some());
    let mut parts: Vec<String> = result.content.into_iter().map(block).collect();
    if let Some(structured) = result.structured_content.filter(|_| !has_text) {
        parts.insert(0, structured.to_string());
    }
    let text = parts.join("\n");
    if result.is_error == Some(true) { Err(text) } else { Ok(text) }
}

fn block(block: ContentBlock) -> String {
    match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => binary("image", &image.mime_type, &image.data),
        ContentBlock::Audio(audio) => binary("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                format!("[resource {uri}]\n{text}")
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                binary(&format!("resource {uri}"), &mime_type.unwrap_or_default(), &blob)
            }
            _ => UNKNOWN.to_owned(),
        },
        ContentBlock::ResourceLink(link) => format!("[resource {}: {}]", link.uri, link.name),
        _ => UNKNOWN.to_owned(),
    }
}

/// Agents get only texts.
fn binary(what: &str, mime_type: &str, base64: &str) -> String {
    let bytes = base64.trim_end_matches('=').len() * 3 / 4;
    format!("[{what}, {mime_type}, {bytes} bytes: not shown]")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_result_is_rendered_as_text() {
        for (result, expected) in [
            (
                json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
                Ok("a\nb"),
            ),
            (json!({"content": []}), Ok("")),
            (
                json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}),
                Ok("[image, image/png, 3 bytes: not shown]"),
            ),
            (
                json!({"content": [{"type": "audio", "data": "AA==", "mimeType": "audio/wav"}]}),
                Ok("[audio, audio/wav, 1 bytes: not shown]"),
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "x:y", "text": "inside"}}]}),
                Ok("[resource x:y]\ninside"),
            ),
            (
                json!({"content": [{"type": "resource", "resource": {"uri": "x:y", "blob": "AAAA"}}]}),
                Ok("[resource x:y, , 3 bytes: not shown]"),
            ),
            (
                json!({"content": [{"type": "resource_link", "uri": "x:y", "name": "why"}]}),
                Ok("[resource x:y: why]"),
            ),
            (json!({"content": [], "structuredContent": {"a": 1}}), Ok("{\"a\":1}")),
            (
                json!({"content": [{"type": "text", "text": "said"}], "structuredContent": {"a": 1}}),
                Ok("said"),
            ),
            (json!({"content": [{"type": "text", "text": "no"}], "isError": true}), Err("no")),
        ] {
            let text = super::text(serde_json::from_value(result.clone()).unwrap());
            assert_eq!(text.as_deref().map_err(String::as_str), expected, "{result}");
        }
    }
}
