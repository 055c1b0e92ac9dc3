//! URLs of stores, as people give them and as they may be shown.

pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// May several processes work on it at the same time?
pub(crate) fn is_shared(url: &str) -> bool {
    is_postgres(url) || (url.starts_with("sqlite:") && url.contains("shared=true"))
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

/// Does the URL hold a password, before the host or in the query?
pub(crate) fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://").filter(|_| is_postgres(url)) else { return false };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let before_host = place.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    before_host.is_some_and(|(_, password)| !password.is_empty())
        || query.split('&').any(|part| part.starts_with("password=") && part.len() > "password=".len())
}

/// Warning for a password on the command line, where everybody on the machine can see it.
pub(crate) fn find_warning<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Option<&'static str> {
    let is_open = |argument: &&str| {
        let (_, value) =
            argument.split_once('=').filter(|(name, _)| name.starts_with('-')).unwrap_or_default();
        has_password(argument) || has_password(value)
    };
    arguments.into_iter().find(is_open).map(|_| {
        "hapax: warning: a password on the command line can be seen by everybody on this machine, and stays in the history of the \
         shell; give the URL in HAPAX_STORE, or as `store` in the configuration file"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RELIABILITY, CLI: a secret given on the command line is warned about.
    #[test]
    fn a_password_on_the_command_line_is_warned_about() {
        for open in [
            "postgres://u:secret@h/d",
            "postgresql://u:s@c:ret@h/d",
            "--store=postgres://u:secret@h/d",
            "postgres://u@h/d?sslmode=require&password=secret",
        ] {
            assert!(find_warning(["serve", open]).is_some(), "{open}");
        }
        for fine in [
            "postgres://u@h:5432/d",
            "postgres://u:@h/d",
            "sqlite:a:b@c.db",
            "--store=postgres://h/d",
            "a:b@c",
        ] {
            assert!(find_warning(["serve", fine]).is_none(), "{fine}");
        }
    }

    #[test]
    fn no_password_is_shown() {
        assert_eq!(without_secrets("postgres://u:secret@h:5432/d"), "postgres://…@h:5432/d");
        assert_eq!(without_secrets("postgres://h/d?password=secret"), "postgres://h/d?…");
        assert_eq!(without_secrets("sqlite:x.db"), "sqlite:x.db");
    }
}
