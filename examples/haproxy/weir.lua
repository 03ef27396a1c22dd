-- Asks Weir whether a request may pass:
--   http-request lua.weir abns@weir
-- where abns@weir is a proxy to it in the same configuration, which knows how long
-- to wait: HAProxy's own HTTP client would try a closed port for three seconds.
-- A refusal is answered as Weir words it. An admitted request has the variables
-- txn.weir_ratelimit and txn.weir_policy for its answer. If Weir gave no answer,
-- txn.weir_unasked is set, and the rules that follow decide.

-- What a client may not say to Weir, and what is about its own connection.
local own = {
  ["host"] = true, ["x-original-uri"] = true, ["x-original-method"] = true, ["x-forwarded-for"] = true,
  ["connection"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
  ["upgrade"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
}

local function question(txn)
  local headers = {}
  for name, values in pairs(txn.http:req_get_headers()) do
    if not own[name] then
      headers[name] = {}
      for i = 0, #values do -- HAProxy counts values from 0
        table.insert(headers[name], values[i])
      end
    end
  end
  headers["host"] = { txn.f:req_hdr("host") or "" }
  headers["x-original-uri"] = { txn.f:pathq() }
  headers["x-original-method"] = { txn.f:method() }
  headers["x-forwarded-for"] = { txn.f:src() }
  return headers
end

local function first(answer, name)
  local values = answer.headers and answer.headers[name]
  return values and values[0]
end

local function refuse(txn, answer)
  local reply = txn:reply({ status = answer.status, body = answer.body })
  for _, name in ipairs({
    "content-type", "cache-control", "retry-after", "ratelimit", "ratelimit-policy", "ratelimit-limit",
    "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-status", "weir-decision",
  }) do
    local value = first(answer, name)
    if value then
      reply:add_header(name, value)
    end
  end
  txn:done(reply)
end

core.register_action("weir", { "http-req" }, function(txn, address)
  local answer = core.httpclient():get({
    url = "http://127.0.0.1/v1/auth/haproxy", dst = address, headers = question(txn),
  })
  if answer.status == 200 then
    if first(answer, "ratelimit") then -- a nil would become the number 0
      txn:set_var("txn.weir_ratelimit", first(answer, "ratelimit"))
      txn:set_var("txn.weir_policy", first(answer, "ratelimit-policy"))
    end
  elseif answer.status >= 400 and answer.status < 500 then
    refuse(txn, answer) -- also a request that Weir cannot read
  else
    txn:set_var("txn.weir_unasked", true)
  end
end, 1)
