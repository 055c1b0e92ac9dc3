//! HTTP requests to the outside world, held to where they may go and how much may come back.
