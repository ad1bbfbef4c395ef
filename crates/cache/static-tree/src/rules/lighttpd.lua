local request = lighty.r

-- The target as it was sent, and the page's path, decoded; nothing where the tree has no such name.
local function path_of(target)
    if target:sub(1, 1) ~= "/" or target:find("//", 1, true) or target:find("/.", 1, true) then
        return nil
    end
    local plain = target:gsub("%%[89A-Fa-f]%x", "")
    if plain:find("[^A-Za-z0-9/" .. punctuation .. "]") then
        return nil
    end
    return (target:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local function matches(name, patterns)
    for _, pattern in ipairs(patterns) do
        if name:find(pattern) then
            return true
        end
    end
    return false
end

-- Whether a cookie may change the page.
local function is_personal(cookies)
    for cookie in cookies:gmatch("[^;]+") do
        local name = cookie:match("^%s*([^=]-)=")
        if name == nil then
            -- Without a name it is nobody's session, and nothing that is known.
            if session_cookies == nil and cookie:find("%S") then
                return true
            end
        elseif not matches(name:lower(), noise_cookies) then
            if session_cookies == nil or matches(name:lower(), session_cookies) then
                return true
            end
        end
    end
    return false
end

local function accepts(codings, wanted)
    for member in codings:lower():gmatch("[^,]+") do
        local coding, rest = member:match("^%s*([^;%s]+)%s*(.*)$")
        if coding == wanted then
            local weight = rest:match("^;%s*q=([%d.]+)%s*$")
            return rest == "" or (weight ~= nil and (tonumber(weight) or 0) > 0)
        end
    end
    return false
end

local function is_file(path)
    local found = lighty.c.stat(path)
    return found ~= nil and found["is_file"]
end

local method = request.req_attr["request.method"]
if (method ~= "GET" and method ~= "HEAD") or request.req_header["Authorization"] then
    return 0
end
local cookies = request.req_header["Cookie"]
if cookies and is_personal(cookies) then
    return 0
end
local host, port = (request.req_attr["uri.authority"] or ""):lower():match("^([a-z0-9_.-]+):?(%d*)$")
local path = path_of(request.req_attr["request.orig-uri"] or request.req_attr["request.uri"])
if path == nil or host == nil or ("." .. host .. "."):find("..", 1, true) then
    return 0
end
local scheme = request.req_attr["uri.scheme"]
local page = page_of(scheme, host, port, path)
if page == nil or not is_file(directory .. "/" .. page) then
    return 0
end
local file = directory .. "/" .. page
local codings = request.req_header["Accept-Encoding"] or ""
if accepts(codings, "br") and is_file(file .. ".br") then
    file = file .. ".br"
    request.resp_header["Content-Encoding"] = "br"
elseif accepts(codings, "gzip") and is_file(file .. ".gz") then
    file = file .. ".gz"
    request.resp_header["Content-Encoding"] = "gzip"
end
request.resp_header["Content-Type"] = "text/html; charset=utf-8"
request.resp_header["Cache-Control"] = cache_control
request.resp_header["Vary"] = "Accept-Encoding"
request.resp_body.set({ { filename = file } })
return 200
