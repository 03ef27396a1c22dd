-- Asks Weir whether a request may pass:
--   http-request lua.weir_ask abns@weir
-- where abns@weir is a proxy to it in the same configuration, which knows how long
-- to wait: HAProxy's own HTTP client would try a closed port for three seconds.
-- An admitted request has the variables txn.weir_ratelimit and txn.weir_policy for
-- its answer. A refused one has txn.weir_refused, and must be answered by the rule
--   http-request use-service lua.weir_refuse if { var(txn.weir_refused) -m found }
-- If Weir gave no answer, txn.weir_unasked is set, and the rules that follow decide.

-- What a client may not say to Weir, and what is about its own connection.
local own = {
  ["host"] = true, ["x-original-uri"] = true, ["x-original-method"] = true, ["x-forwarded-for"] = true,
  ["connection"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true,
  ["upgrade"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
}

-- The fields of a question: HAProxy has room for tune.http.maxhdr, 101 unless it is
-- set, and its HTTP client crashes at more.
local most = 96

-- The fields of the question, or nil if they are too many.
local function question(txn)
  local headers, count = {}, 4
  for name, values in pairs(txn.http:req_get_headers()) do
    if not own[name] then
      headers[name] = {}
      for i = 0, #values do -- HAProxy counts values from 0
        table.insert(headers[name], values[i])
        count = count + 1
      end
    end
  end
  if count > most then
    return nil
  end
  headers["host"] = { txn.f:req_hdr("host") or "" }
  headers["x-original-uri"] = { txn.f:pathq() }
  headers["x-original-method"] = { txn.f:method() }
  headers["x-forwarded-for"] = { txn.f:src() }
  return headers
end

-- What a refusal tells its client.
local told = {
  "content-type", "cache-control", "retry-after", "ratelimit", "ratelimit-policy", "ratelimit-limit",
  "ratelimit-remaining", "ratelimit-reset", "x-ratelimit-status", "weir-decision",
}

local function first(answer, name)
  local values = answer.headers and answer.headers[name]
  return values and values[0]
end

local function refuse(txn, status, body, field)
  for _, name in ipairs(told) do
    txn:set_var("txn.weir_told_" .. name:gsub("-", "_"), field(name) or "")
  end
  txn:set_var("txn.weir_body", body)
  txn:set_var("txn.weir_refused", status)
end

core.register_action("weir_ask", { "http-req" }, function(txn, address)
  local headers = question(txn)
  if not headers then
    refuse(txn, 431, "", function() end)
    return
  end
  local answer = core.httpclient():get({
    url = "http://127.0.0.1/v1/auth/haproxy", dst = address, headers = headers,
  })
  if answer.status == 200 then
    if first(answer, "ratelimit") then -- a nil would become the number 0
      txn:set_var("txn.weir_ratelimit", first(answer, "ratelimit"))
      txn:set_var("txn.weir_policy", first(answer, "ratelimit-policy"))
    end
  elseif answer.status >= 400 and answer.status < 500 then -- also a request that Weir cannot read
    refuse(txn, answer.status, answer.body or "", function(name) return first(answer, name) end)
  else
    txn:set_var("txn.weir_unasked", true)
  end
end, 1)

-- Words a refusal as Weir does. What the client still sends is read, up to a
-- megabyte: until its version 3.0 HAProxy would reset the connection, and with it
-- most clients would lose their answer. Who expects a 100 has not sent it.
core.register_service("weir_refuse", "http", function(applet)
  local body = applet:get_var("txn.weir_body")
  applet:set_status(applet:get_var("txn.weir_refused"))
  for _, name in ipairs(told) do
    local value = applet:get_var("txn.weir_told_" .. name:gsub("-", "_"))
    if value ~= "" then
      applet:add_header(name, value)
    end
  end
  applet:add_header("content-length", #body)
  applet:start_response()
  applet:send(body)
  if not applet.headers["expect"] then
    for _ = 1, 64 do
      if #applet:receive(16384) < 16384 then
        break
      end
    end
  end
end)
