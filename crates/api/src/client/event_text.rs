//! Incremental parser of server-sent events.

use std::collections::VecDeque;

use super::ClientError;
use super::limits::MAX_EVENT_BYTES;

/// One event as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TextEvent {
    pub(super) name: String,
    pub(super) id: Option<String>,
    pub(super) data: String,
}

/// Takes bytes and yields events.
#[derive(Debug, Default)]
pub(super) struct EventText {
    line: Vec<u8>,
    /// A line feed right after a carriage return ends no second line.
    was_return: bool,
    event: TextEvent,
    has_data: bool,
    ready: VecDeque<TextEvent>,
}

impl EventText {
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        for &byte in bytes {
            let follows_return = std::mem::replace(&mut self.was_return, byte == b'\r');
            match byte {
                b'\n' if follows_return => {}
                b'\n' | b'\r' => self.end_line()?,
                _ => self.line.push(byte),
            }
            if self.line.len() + self.event.data.len() > MAX_EVENT_BYTES {
                let detail = format!("an event of the stream has more than {MAX_EVENT_BYTES} bytes");
                return Err(ClientError::Protocol { status: None, detail });
            }
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<TextEvent> {
        self.ready.pop_front()
    }

    fn end_line(&mut self) -> Result<(), ClientError> {
        let line = String::from_utf8(std::mem::take(&mut self.line)).map_err(|_| ClientError::Protocol {
            status: None,
            detail: "the stream of events is not text".into(),
        })?;
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            // An event without data is a keep-alive.
            if std::mem::take(&mut self.has_data) {
                self.ready.push_back(event);
            }
            return Ok(());
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => self.event.name = value.into(),
            "id" => self.event.id = Some(value.into()),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments have no name; other fields are not used.
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&[u8]]) -> Vec<TextEvent> {
        let mut text = EventText::default();
        chunks.iter().for_each(|chunk| text.take(chunk).unwrap());
        std::iter::from_fn(|| text.next()).collect()
    }

    #[test]
    fn events_come_out_whole_however_they_were_cut() {
        let all = b"event: run\nid: 3\ndata: {\"a\":\ndata: 1}\n\n:\n\nevent:end\r\ndata:x\r\n\r\ndata: cut";
        let expected = [
            TextEvent { name: "run".into(), id: Some("3".into()), data: "{\"a\":\n1}".into() },
            TextEvent { name: "end".into(), id: None, data: "x".into() },
        ];
        assert_eq!(read(&[all]), expected);
        let bytes: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(read(&bytes), expected);
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_refused() {
        assert!(EventText::default().take(b"data: \xff\n").is_err());
        let endless = vec![b'x'; MAX_EVENT_BYTES + 1];
        assert!(EventText::default().take(&endless).is_err());
    }
}
