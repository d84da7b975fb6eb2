/// The longest event. A server may send a whole tool call in one.
const MAX_BYTES: usize = 8 << 20;

/// Parses a stream of server-sent events into the data of each. It ignores the event names: both
/// wires repeat them in the data.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last byte was a carriage return: a line feed after it belongs to the same line end.
    after_return: bool,
    started: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl SseParser {
    /// The data of the events that these bytes complete.
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut events = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let rest_of_end =
                std::mem::take(&mut self.after_return) && end == 0 && bytes[end] == b'\n';
            self.after_return = bytes[end] == b'\r';
            if !rest_of_end {
                self.extend(&bytes[..end])?;
                events.extend(self.end_line());
            }
            bytes = &bytes[end + 1..];
        }
        if !bytes.is_empty() {
            self.after_return = false;
            self.extend(bytes)?;
        }
        Ok(events)
    }

    /// The data of the last event: some servers omit its line end.
    pub(super) fn end(mut self) -> Option<Vec<u8>> {
        self.end_line().or(self.data)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() + self.data.as_ref().map_or(0, Vec::len) > MAX_BYTES {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Option<Vec<u8>> {
        let line = std::mem::take(&mut self.line);
        let first = !std::mem::replace(&mut self.started, true);
        let line = line.strip_prefix(b"\xEF\xBB\xBF").filter(|_| first).unwrap_or(&line);
        if line.is_empty() {
            return self.data.take();
        }
        let value = line.strip_prefix(b"data")?;
        let value = if value.is_empty() { value } else { value.strip_prefix(b":")? };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &mut self.data {
            Some(data) => {
                data.push(b'\n');
                data.extend_from_slice(value);
            }
            None => self.data = Some(value.to_vec()),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(stream: &[u8]) -> Vec<String> {
        let mut parser = SseParser::default();
        let whole = parser.feed(stream).unwrap();
        whole.into_iter().chain(parser.end()).map(|data| String::from_utf8(data).unwrap()).collect()
    }

    #[test]
    fn events_are_the_same_wherever_the_bytes_are_cut_and_however_lines_end() {
        let stream = "\u{feff}: a comment\nevent: x\ndata: {\"a\":\ndata: \"ä🦀\"}\nid: 7\n\n\n:\n\ndata:no space\n\n\
                      dataless: no\ndata\n\ndata:  two\n\n";
        let expected = ["{\"a\":\n\"ä🦀\"}", "no space", "", " two"];
        for end in ["\n", "\r\n", "\r"] {
            let stream = stream.replace('\n', end).into_bytes();
            assert_eq!(all(&stream), expected);
            for cut in 0..=stream.len() {
                let mut parser = SseParser::default();
                let mut seen = parser.feed(&stream[..cut]).unwrap();
                seen.extend(parser.feed(&stream[cut..]).unwrap());
                assert_eq!(seen, expected.map(|text| text.as_bytes().to_vec()), "cut at {cut}");
            }
            let mut parser = SseParser::default();
            let seen: Vec<_> =
                stream.iter().flat_map(|byte| parser.feed(&[*byte]).unwrap()).collect();
            assert_eq!(seen.len(), expected.len());
        }
    }

    #[test]
    fn the_last_line_end_may_be_missing() {
        assert_eq!(all(b"data: 1\n\ndata: 2"), ["1", "2"]);
        assert_eq!(all(b"data: 1\n\ndata: 2\n"), ["1", "2"]);
        assert_eq!(all(b"data: 1\n\n: bye"), ["1"]);
    }

    #[test]
    fn an_event_without_an_end_is_rejected_before_it_fills_the_memory() {
        let piece = vec![b'x'; 1 << 20];
        let mut parser = SseParser::default();
        assert!((0..8).all(|_| parser.feed(&piece).is_ok()));
        assert_eq!(parser.feed(&piece), Err(TooLong));

        let lines = b"data: 0123456789\n".repeat(1 << 16);
        let mut parser = SseParser::default();
        assert!((0..16).any(|_| parser.feed(&lines).is_err()));
    }
}
