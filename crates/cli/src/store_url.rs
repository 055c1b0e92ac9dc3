//! URLs of stores, as people give them and as they may be shown.

pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The URL without what must not be shown: a password may stand before the host, or in the query.
pub(crate) fn without_secrets(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_string() };
    let (place, query) = rest.split_once('?').map_or((rest, ""), |(place, _)| (place, "?…"));
    match place.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}{query}"),
        None => format!("{scheme}://{place}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        assert_eq!(without_secrets("postgres://u:secret@h:5432/d"), "postgres://…@h:5432/d");
        assert_eq!(without_secrets("postgres://h/d?password=secret"), "postgres://h/d?…");
        assert_eq!(without_secrets("sqlite:x.db"), "sqlite:x.db");
    }
}
