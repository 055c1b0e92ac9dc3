//! What goes over the wire: types, the table of errors, the typed client.
