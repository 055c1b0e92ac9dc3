//! Content negotiation.

use hapax_api::Code;
use http::HeaderMap;
use http::header::ACCEPT;

use crate::answer::Refused;

/// For routes that answer JSON: rejects callers that do not accept it.
pub fn check_json_accepted(headers: &HeaderMap) -> Result<(), Refused> {
    match accepts(headers, "application", "json") {
        true => Ok(()),
        false => Err(Refused::new(
            Code::NotAcceptable,
            "This route answers application/json. Omit `Accept`, or accept it.",
        )),
    }
}

/// Returns true if `Accept` allows this media type. Without the header everything is allowed; the
/// most specific range decides.
pub fn accepts(headers: &HeaderMap, kind: &str, subtype: &str) -> bool {
    let mut is_given = false;
    let mut best: Option<(u8, bool)> = None;
    for value in headers.get_all(ACCEPT) {
        is_given = true;
        // A header that is not text cannot name the media type.
        let Ok(value) = value.to_str() else { continue };
        for range in value.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let Some((range_kind, range_subtype)) = parts.next().and_then(|range| range.split_once('/'))
            else {
                continue;
            };
            let specificity = match (range_kind, range_subtype) {
                ("*", "*") => 0,
                (k, "*") if k.eq_ignore_ascii_case(kind) => 1,
                (k, s) if k.eq_ignore_ascii_case(kind) && s.eq_ignore_ascii_case(subtype) => 2,
                _ => continue,
            };
            let quality = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
            let is_wanted = quality.is_none_or(|q| q.parse::<f32>().is_ok_and(|q| q > 0.0));
            if best.is_none_or(|(seen, _)| specificity >= seen) {
                best = Some((specificity, is_wanted));
            }
        }
    }
    !is_given || best.is_some_and(|(_, is_wanted)| is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts_json(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        accepts(&headers, "application", "json")
    }

    /// RELIABILITY, HTTP: `Accept` unsupported.
    #[test]
    fn json_is_sent_to_callers_that_accept_it() {
        assert!(accepts_json(&[]));
        for value in ["*/*", "application/*", "text/html, application/json;q=0.1", "APPLICATION/JSON"] {
            assert!(accepts_json(&[value]), "{value}");
        }
        for value in ["text/html", "", "application/json;q=0, */*", "application/xml", "json"] {
            assert!(!accepts_json(&[value]), "{value}");
        }
        assert!(accepts_json(&["text/html", "application/json"]));
    }
}
