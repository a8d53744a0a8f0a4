//! The paths of [`super::Server`]: the file and the symbols, below the token.
//!
//! Called by the server's thread for each request. Invariant: a path with a wrong token and a path
//! that does not exist get the same answer, after a comparison whose time does not depend on the
//! token.

use std::fs::File;
use std::sync::Arc;

use hyper::{Method, Response, StatusCode};

use super::symbols::Symbolicate;
use crate::http::{Answer, Answered, BodyWork, Hosts, HttpService, Reply, RequestHead, is_same};
use crate::http::{
    for_any_origin, method_not_allowed, not_found, of_file, preflight, put, status, with_type,
};
use crate::symbols::stack::on_symbol_stack;

/// Limit on the bytes of a request for symbols: 100,000 addresses of a large library need two
/// million.
const MAX_BODY: usize = 16 << 20;

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ViewResource {
    Profile,
    Symbolicate,
}

/// The data that is served.
pub(super) struct ViewRoutes {
    pub(super) token: String,
    pub(super) file: Arc<File>,
    pub(super) is_compressed: bool,
    pub(super) hosts: Hosts,
    pub(super) symbolicate: Arc<Symbolicate>,
}

impl std::fmt::Debug for ViewRoutes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Omits the token, which is a secret.
        f.debug_struct("ViewRoutes")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

impl HttpService for ViewRoutes {
    fn answer(&self, request: &RequestHead) -> Answered {
        let resource = self.resource(request);
        let has_token = resource.is_ok();
        let reply = match resource {
            Ok(resource) => self.reply(resource, request),
            Err(refusal) => Reply::Now(status(refusal)),
        };
        Answered { reply, has_token }
    }
}

impl ViewRoutes {
    fn resource(&self, request: &RequestHead) -> Result<ViewResource, StatusCode> {
        if !self.hosts.accept(request) {
            return Err(StatusCode::FORBIDDEN);
        }
        let below = request
            .uri()
            .path()
            .strip_prefix('/')
            .and_then(|path| path.split_once('/'));
        let (token, rest) = below.ok_or(StatusCode::NOT_FOUND)?;
        match rest {
            _ if !is_same(token, &self.token) => Err(StatusCode::NOT_FOUND),
            super::link::PROFILE => Ok(ViewResource::Profile),
            super::link::SYMBOLICATE => Ok(ViewResource::Symbolicate),
            _ => Err(StatusCode::NOT_FOUND),
        }
    }

    fn reply(&self, resource: ViewResource, request: &RequestHead) -> Reply {
        let response = match (resource, request.method()) {
            (_, &Method::OPTIONS) => preflight(request, "GET, HEAD, POST, OPTIONS"),
            (ViewResource::Profile, &Method::GET | &Method::HEAD) => self.profile(),
            (ViewResource::Profile, _) => method_not_allowed("GET, HEAD, OPTIONS"),
            (ViewResource::Symbolicate, &Method::POST) => return Reply::AfterBody(self.symbols()),
            (ViewResource::Symbolicate, _) => method_not_allowed("POST, OPTIONS"),
        };
        Reply::Now(for_any_origin(response))
    }

    fn profile(&self) -> Response<Answer> {
        let Some(mut response) = of_file(Arc::clone(&self.file), "application/json") else {
            return not_found();
        };
        if self.is_compressed {
            put(&mut response, &[("content-encoding", "gzip")]);
        }
        response
    }

    fn symbols(&self) -> BodyWork {
        let symbolicate = Arc::clone(&self.symbolicate);
        let file = Arc::clone(&self.file);
        let work = move |body: Vec<u8>| for_any_origin(answer_symbols(&*symbolicate, &file, &body));
        BodyWork {
            limit: MAX_BODY,
            work: Box::new(work),
        }
    }
}

fn answer_symbols(symbolicate: &Symbolicate, file: &File, body: &[u8]) -> Response<Answer> {
    let Ok(question) = std::str::from_utf8(body) else {
        return status(StatusCode::BAD_REQUEST);
    };
    match on_symbol_stack(|| symbolicate(file, question)) {
        Ok(Some(answer)) => with_type(Answer::from(answer.into_bytes()), "application/json"),
        Ok(None) => status(StatusCode::BAD_REQUEST),
        Err(_) => status(StatusCode::INTERNAL_SERVER_ERROR),
    }
}
