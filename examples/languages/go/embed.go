// Embeds a text over the JSON interface, with Go's standard library alone:
//
//	go run embed.go http://127.0.0.1:8000 "join two paths" 10
//
// It prints the vector as a list of numbers. The last argument is the deadline in seconds.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

type answer struct {
	Pooled []struct {
		Data [][]float32 `json:"data"`
	} `json:"pooled"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

func embed(address, text string, seconds float64) ([]float32, error) {
	body, err := json.Marshal(map[string]any{
		"inputs":  []any{map[string]string{"text": text}},
		"outputs": map[string]any{"pooled": map[string]any{}},
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequest("POST", address+"/v1/encode", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	// The service drops the work after this time, and the client waits ten seconds more.
	request.Header.Set("X-Request-Timeout", strconv.FormatFloat(seconds, 'f', -1, 64))
	client := http.Client{Timeout: time.Duration((seconds + 10) * float64(time.Second))}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var read answer
	if err := json.NewDecoder(response.Body).Decode(&read); err != nil {
		return nil, fmt.Errorf("%s: %w", response.Status, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", read.Error.Code, read.Error.Message)
	}
	return read.Pooled[0].Data[0], nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: embed ADDRESS TEXT SECONDS")
		os.Exit(2)
	}
	seconds, err := strconv.ParseFloat(os.Args[3], 64)
	if err == nil {
		var vector []float32
		if vector, err = embed(os.Args[1], os.Args[2], seconds); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(vector)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
